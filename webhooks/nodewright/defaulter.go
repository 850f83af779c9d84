package nodewright

import (
	"context"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// defaulter fills in what a user may leave out.
//
//	failurePolicy  Fail
//	timeout        5 s
//	scope          creations of NodeWrights, and updates that change the spec
//	when down      no NodeWright is created, no spec changed
//
// It works on the raw request: what is patched is the difference between two
// encodings of the same object, before and after. A difference to the request
// itself would rewrite every quantity and duration that the user spelled
// otherwise (4000m, 60m), which shows as drift for ever.
type defaulter struct{}

// Handle answers with the patch. What cannot be decoded passes: the schema
// refuses it, and knows every field that is wrong. Only of durations it says too
// little, so a warning says how they are written.
func (*defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	var nw v1alpha1.NodeWright
	// As the API server reads it: Packages is not packages.
	if err := json.Unmarshal(req.Object.Raw, &nw); err != nil {
		log.FromContext(ctx).V(2).Info("not decoded, left to the schema", "nodewright", req.Name, "reason", err.Error())
		return admission.Allowed("").WithWarnings(durationHints(req.Object.Raw)...)
	}
	before, err := json.Marshal(&nw)
	if err != nil {
		return admission.Allowed("")
	}
	setDefaults(&nw)
	after, err := json.Marshal(&nw)
	if err != nil {
		return admission.Allowed("")
	}
	return admission.PatchResponseFromRaw(before, after)
}

// setDefaults fills in the name of each package from its key. A name that
// differs, and a key that is no name, are left to validation, and an entry with
// nothing in it to the schema.
func setDefaults(nw *v1alpha1.NodeWright) {
	for key, p := range nw.Spec.Packages {
		if p.Name == "" && p.Version != "" && nodestate.ValidPackageName(key) {
			p.Name = key
			nw.Spec.Packages[key] = p
		}
	}
}
