package node

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// reviewTimeout ends the question whether somebody may break the glass. It leaves
// room in the time that the API server waits for an answer.
const reviewTimeout = 2 * time.Second

// Reviewer tells whether a user may write keys of the operator.
type Reviewer interface {
	// MayOverride asks for the verb override on nodewrights/nodestate. The error
	// says that nobody knows.
	MayOverride(ctx context.Context, user *authenticationv1.UserInfo) (bool, error)
}

// accessReviewer asks the API server.
type accessReviewer struct {
	reviews authorizationclient.SubjectAccessReviewInterface
}

func (r accessReviewer) MayOverride(ctx context.Context, user *authenticationv1.UserInfo) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "override", Group: v1alpha1.GroupVersion.Group, Resource: "nodewrights", Subresource: "nodestate",
		},
	}}
	review, err := r.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the access of %q: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}
