package index_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/index"
)

type indexer map[string]client.IndexerFunc

func (i indexer) IndexField(_ context.Context, _ client.Object, field string, f client.IndexerFunc) error {
	if i[field] != nil {
		return errors.New("indexer conflict")
	}
	i[field] = f
	return nil
}

func TestRegister(t *testing.T) {
	t.Parallel()
	got := indexer{}
	if err := index.Register(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{packagejob.LabelPackage: "p-1"}
	job := func(node string, labels map[string]string) *batchv1.Job {
		j := &batchv1.Job{}
		j.Labels, j.Spec.Template.Spec.NodeName = labels, node
		return j
	}
	pod := func(node string, labels map[string]string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Labels, p.Spec.NodeName = labels, node
		return p
	}
	for name, tc := range map[string]struct {
		field string
		obj   client.Object
		want  []string
	}{
		"job":                   {packagejob.IndexNode, job("n1", ours), []string{"n1"}},
		"job of somebody else":  {packagejob.IndexNode, job("n1", nil), nil},
		"job without node":      {packagejob.IndexNode, job("", ours), nil},
		"not a job":             {packagejob.IndexNode, pod("n1", ours), nil},
		"pod":                   {packagejob.IndexPodNode, pod("n1", ours), []string{"n1"}},
		"pod of somebody else":  {packagejob.IndexPodNode, pod("n1", nil), nil},
		"pod not scheduled yet": {packagejob.IndexPodNode, pod("", ours), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, got[tc.field](tc.obj)); diff != "" {
				t.Errorf("index %s (-want +got):\n%s", tc.field, diff)
			}
		})
	}
	if err := index.Register(t.Context(), got); err == nil {
		t.Error("a second registration succeeded")
	}
}
