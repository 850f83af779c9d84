package nodestate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func TestStrongestInterrupt(t *testing.T) {
	t.Parallel()
	service := func(names ...string) nodestate.Interrupt {
		return nodestate.Interrupt{Type: nodestate.InterruptService, Services: names}
	}
	of := func(kind string) nodestate.Interrupt { return nodestate.Interrupt{Type: kind} }
	noop, all, reboot := of(nodestate.InterruptNoop), of(nodestate.InterruptRestartAllServices), of(nodestate.InterruptReboot)
	for name, tc := range map[string]struct {
		list   []nodestate.Interrupt
		want   nodestate.Interrupt
		wantOK bool
	}{
		"none":                                {},
		"one":                                 {list: []nodestate.Interrupt{noop}, want: noop, wantOK: true},
		"service over noop":                   {list: []nodestate.Interrupt{noop, service("a")}, want: service("a"), wantOK: true},
		"all services over service":           {list: []nodestate.Interrupt{service("a"), all}, want: all, wantOK: true},
		"reboot over all services":            {list: []nodestate.Interrupt{reboot, all, noop}, want: reboot, wantOK: true},
		"services of all, sorted, each once":  {list: []nodestate.Interrupt{service("c", "a"), noop, service("b", "a")}, want: service("a", "b", "c"), wantOK: true},
		"services of one, sorted, each once":  {list: []nodestate.Interrupt{service("b", "a", "b")}, want: service("a", "b"), wantOK: true},
		"a type that only a newer one knows":  {list: []nodestate.Interrupt{of("kexec")}, want: of("kexec"), wantOK: true},
		"a known type over one that is not":   {list: []nodestate.Interrupt{of("kexec"), noop}, want: noop, wantOK: true},
		"services of another type count not":  {list: []nodestate.Interrupt{{Type: nodestate.InterruptNoop, Services: []string{"x"}}, service("a")}, want: service("a"), wantOK: true},
		"services of a reboot are no matter ": {list: []nodestate.Interrupt{{Type: nodestate.InterruptReboot, Services: []string{"x"}}}, want: reboot, wantOK: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := nodestate.StrongestInterrupt(tc.list)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.wantOK {
				t.Fatalf("StrongestInterrupt() ok = %t, want %t, (-want +got):\n%s", ok, tc.wantOK, diff)
			}
		})
	}
}

// The result depends neither on the order of the list nor on how it is grouped,
// and the list stays as it is.
func TestStrongestInterruptInAnyOrder(t *testing.T) {
	t.Parallel()
	types := []string{nodestate.InterruptReboot, nodestate.InterruptRestartAllServices, nodestate.InterruptService, nodestate.InterruptNoop}
	one := rapid.Custom(func(t *rapid.T) nodestate.Interrupt {
		i := nodestate.Interrupt{Type: rapid.SampledFrom(types).Draw(t, "type")}
		if i.Type == nodestate.InterruptService {
			i.Services = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4).Draw(t, "services")
		}
		return i
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(one, 1, 6).Draw(t, "list")
		var before []nodestate.Interrupt
		for _, i := range list {
			before = append(before, nodestate.Interrupt{Type: i.Type, Services: slices.Clone(i.Services)})
		}
		want, _ := nodestate.StrongestInterrupt(list)
		shuffled, _ := nodestate.StrongestInterrupt(rapid.Permutation(list).Draw(t, "shuffled"))
		if diff := cmp.Diff(want, shuffled); diff != "" {
			t.Fatalf("another order (-want +got):\n%s", diff)
		}
		at := rapid.IntRange(1, len(list)).Draw(t, "split")
		head, _ := nodestate.StrongestInterrupt(list[:at])
		grouped, _ := nodestate.StrongestInterrupt(append([]nodestate.Interrupt{head}, list[at:]...))
		if diff := cmp.Diff(want, grouped); diff != "" {
			t.Fatalf("another grouping (-want +got):\n%s", diff)
		}
		for i := range list {
			if list[i].Type != before[i].Type || !slices.Equal(list[i].Services, before[i].Services) {
				t.Fatalf("the list was changed: %+v, was %+v", list, before)
			}
		}
	})
}
