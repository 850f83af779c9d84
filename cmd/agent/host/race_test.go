package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLockThatIsRemoved: who waited for a file that is gone by then must not
// work beside the one who made it anew.
func TestLockThatIsRemoved(t *testing.T) {
	r, dir := tree(t, nil)
	first, err := r.Lock(context.Background(), "/lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	// The second waits for the file of the first. While it does, that one is
	// removed, and made anew by the third.
	waits, got := make(chan struct{}), make(chan *os.File, 1)
	second, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	waited := 0
	go func() {
		f, err := second.Lock(context.Background(), "/lock", func() {
			if waited++; waited < 3 {
				waits <- struct{}{}
			}
		})
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	<-waits
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	third, err := r.Lock(context.Background(), "/lock", func() { t.Error("waits for a file that is gone") })
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	select {
	case <-waits:
		// It has seen that its file is gone, and waits for the new one.
	case <-got:
		t.Fatal("two hold the lock at once")
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a file that nobody holds")
	}
	_ = third.Close()
	select {
	case f := <-got:
		if there, err := r.same(f, "/lock"); err != nil || !there {
			t.Errorf("the lock is not the file: %v, %v", there, err)
		}
		_ = f.Close()
	case <-time.After(10 * time.Second):
		t.Error("the lock is free, and is not taken")
	}
}

// TestRemoveAllBesideAnother: another program removes the same directory.
func TestRemoveAllBesideAnother(t *testing.T) {
	for _, gone := range []string{"d", "d/deep", "d/deep/x", "d/z"} {
		for n := 0; ; n++ {
			r, dir := tree(t, map[string]string{"d/a": "", "d/deep/x": "", "d/deep/y": "", "d/z": ""})
			calls := 0
			r.Gate = func(Change) error {
				if calls == n {
					if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
						t.Error(err)
					}
				}
				calls++
				return nil
			}
			if err := r.RemoveAll("/d"); err != nil {
				t.Errorf("%s removed before call %d: %v", gone, n, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "d")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s removed before call %d: d is there, %v", gone, n, err)
			}
			if calls <= n {
				break
			}
		}
	}
}
