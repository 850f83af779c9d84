package drain

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// requestTimeout ends each request. The API server itself takes up to 10 s over
	// an eviction while others change the same budget.
	requestTimeout = 15 * time.Second
	// pageSize of lists. A node has 110 pods by default, so one page is the rule.
	pageSize = 500
)

// Options say how the pods of a node are looked at.
type Options struct {
	// Namespace of the package pods.
	Namespace string
	// Settings of the drain.
	Settings v1alpha1.DrainSettings
	// NonInterrupt are podNonInterruptLabels; empty selects no pod.
	NonInterrupt metav1.LabelSelector
}

// Client reads and evicts pods.
type Client struct {
	live client.Reader
	// rest sends evictions: other clients repeat a request that was answered with
	// Retry-After, and sleep in between.
	rest rest.Interface
}

// NewClient makes a client that reads through live, which must not be a cache:
// no cache has all pods of the cluster, and none would be fresh enough.
func NewClient(config *rest.Config, httpClient *http.Client, live client.Reader) (*Client, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	r, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("create client for evictions: %w", err)
	}
	return &Client{live: live, rest: r}, nil
}

// List reads all pods that are bound to the node from the API server, and
// classifies them. They are sorted by namespace and name; pods that have ended
// are among them, as Exempt.
func (c *Client) List(ctx context.Context, node string, o *Options) ([]Pod, error) {
	selector, err := nonInterruptSelector(&o.NonInterrupt)
	if err != nil {
		return nil, err
	}
	r := rules{namespace: o.Namespace, settings: &o.Settings, nonInterrupt: selector}
	var pods []Pod
	var page corev1.PodList
	for {
		if err := c.page(ctx, node, &page); err != nil {
			return nil, fmt.Errorf("list pods of node %s: %w", node, err)
		}
		for i := range page.Items {
			pods = append(pods, r.classify(&page.Items[i]))
		}
		if page.Continue == "" {
			break
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// page reads the page that follows the one given.
func (c *Client) page(ctx context.Context, node string, page *corev1.PodList) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	next := page.Continue
	*page = corev1.PodList{}
	return c.live.List(ctx, page, client.MatchingFields{"spec.nodeName": node},
		client.Limit(pageSize), client.Continue(next))
}

// nonInterruptSelector is the selector of podNonInterruptLabels. An empty one
// selects nothing, unlike elsewhere.
func nonInterruptSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return labels.Nothing(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("read podNonInterruptLabels: %w", err)
	}
	return selector, nil
}
