package drain

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages answers lists page by page, the name of each page being its token.
type pages struct {
	client.Reader
	names  []string
	fail   string
	asked  []string
	fields []string
	limits []int64
}

func (p *pages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	p.asked, p.fields, p.limits = append(p.asked, o.Continue), append(p.fields, o.FieldSelector.String()), append(p.limits, o.Limit)
	at := 0
	for i, name := range p.names {
		if name == o.Continue {
			at = i + 1
		}
	}
	if p.fail != "" && p.fail == o.Continue {
		return errors.New("expired")
	}
	out := list.(*corev1.PodList)
	pod := workload()
	pod.Name, pod.UID = p.names[at], types.UID("of-"+p.names[at])
	out.Items = append(out.Items, *pod)
	if at+1 < len(p.names) {
		out.Continue = p.names[at]
	}
	return nil
}

func TestListReadsAllPages(t *testing.T) {
	reads := &pages{names: []string{"c", "a", "b"}}
	pods, err := (&Client{live: reads}).List(t.Context(), "n1", &Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range pods {
		got = append(got, pods[i].String()+" "+string(pods[i].UID))
	}
	if diff := cmp.Diff([]string{"shop/a of-a", "shop/b of-b", "shop/c of-c"}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "c", "a"}, reads.asked); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	for i := range reads.fields {
		if reads.fields[i] != "spec.nodeName=n1" || reads.limits[i] != pageSize {
			t.Errorf("page %d: fields %s, limit %d", i, reads.fields[i], reads.limits[i])
		}
	}
}

// Half a list would show a node as empty.
func TestListFailsAsAWhole(t *testing.T) {
	pods, err := (&Client{live: &pages{names: []string{"a", "b"}, fail: "a"}}).List(t.Context(), "n1", &Options{})
	if err == nil || pods != nil {
		t.Fatalf("%d pods, error %v", len(pods), err)
	}
}
