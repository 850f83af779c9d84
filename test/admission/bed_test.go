package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	devoperator "github.com/nodewright/nodewright/cmd/devcluster/operator"
	"github.com/nodewright/nodewright/cmd/devcluster/webhooks"
	"github.com/nodewright/nodewright/test/manifests"
	"github.com/nodewright/nodewright/test/poll"
)

const (
	namespace      = "nodewright-system"
	serviceAccount = "nodewright-manager"
	validatingName = "nodewright-validating-webhook-configuration"
	mutatingName   = "nodewright-mutating-webhook-configuration"

	// patience is how long something may take that the API server does by itself.
	patience = 20 * time.Second
)

// installation is the operator's admission on a control plane.
type installation struct {
	cluster *controlplane.ControlPlane
	admin   kubernetes.Interface
	server  *server
	objects manifests.Objects
}

// install applies what ships, starts the webhooks, and returns when the API
// server asks them.
func install(ctx context.Context, cluster *controlplane.ControlPlane) (*installation, error) {
	config := cluster.Config()
	config.QPS = -1
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	b := &installation{cluster: cluster, admin: admin}
	if b.objects, err = manifests.Render(ctx, manifests.Default); err != nil {
		return nil, err
	}
	// Without cert-manager the API server does not know its kinds.
	b.objects = slices.DeleteFunc(b.objects, func(o manifests.Object) bool {
		return o.GroupVersionKind().Group == "cert-manager.io"
	})
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	hosts, err := webhooks.Redirect(b.objects, port)
	if err != nil {
		return nil, err
	}
	authority, err := webhooks.NewAuthority(time.Now(), time.Hour)
	if err != nil {
		return nil, err
	}
	if b.server, err = newServer(config, port, authority, hosts); err != nil {
		return nil, err
	}
	if _, err := b.apply(ctx); err != nil {
		return nil, err
	}
	if err := b.grant(ctx); err != nil {
		return nil, err
	}
	if err := b.inject(ctx, authority.CABundle()); err != nil {
		return nil, err
	}
	if err := b.server.start(); err != nil {
		return nil, err
	}
	return b, b.waitUntilAsked(ctx)
}

// apply does what a user does, and returns what kubectl says.
func (b *installation) apply(ctx context.Context) (string, error) {
	return devoperator.Apply(ctx, b.cluster, b.objects)
}

// inject puts the CA into the configurations, as cert-manager's injector does.
func (b *installation) inject(ctx context.Context, ca []byte) error {
	opts := metav1.UpdateOptions{FieldManager: "cert-manager-cainjector"}
	api := b.admin.AdmissionregistrationV1()
	v, err := api.ValidatingWebhookConfigurations().Get(ctx, validatingName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig.CABundle = ca
	}
	if _, err := api.ValidatingWebhookConfigurations().Update(ctx, v, opts); err != nil {
		return err
	}
	m, err := api.MutatingWebhookConfigurations().Get(ctx, mutatingName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.CABundle = ca
	}
	_, err = api.MutatingWebhookConfigurations().Update(ctx, m, opts)
	return err
}

// grant gives the users of the tests their rights: to write nodes, and to break
// the glass.
func (b *installation) grant(ctx context.Context) error {
	const writers = "node-writers"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: writers}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}}}
	api := b.admin.RbacV1()
	if _, err := api.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	for group, role := range map[string]string{writers: writers, "node-repairers": "nodewright-node-state-override"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		}
		if _, err := api.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// waitUntilAsked waits until the API server sends what it should: it sees new
// configurations and services after a moment.
func (b *installation) waitUntilAsked(ctx context.Context) error {
	forged := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"asked","annotations":{"nodewright.nvidia.com/status_asked":"x"}}}`
	for ctx, cancel := context.WithTimeout(ctx, patience); ; time.Sleep(20 * time.Millisecond) {
		defer cancel()
		err := b.admin.CoreV1().RESTClient().Post().Resource("nodes").Param("dryRun", "All").Body([]byte(forged)).Do(ctx).Error()
		calls := b.server.calls("asked")
		asked := func(path string) bool {
			return slices.ContainsFunc(calls, func(c call) bool { return c.path == path })
		}
		if asked(pathMutateNode) && asked(pathValidateNode) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait until the API server asks the webhooks: %d calls, the last request: %w", len(calls), err)
		}
	}
}

// identity is who makes a request.
type identity struct {
	user   string
	groups []string
}

var (
	// admin is who installs; nothing is refused to the group.
	admin = identity{"kubernetes-admin", []string{"system:masters", "system:authenticated"}}
	// operator is the service account of the manager.
	operator = identity{"system:serviceaccount:" + namespace + ":" + serviceAccount,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
	// alice may write nodes, as controllers of clouds and people on call may.
	alice = identity{"alice", []string{"system:authenticated", "node-writers"}}
	// repair is alice with the right to break the glass.
	repair = identity{"bob", []string{"system:authenticated", "node-writers", "node-repairers"}}
)

// kubelet of a node.
func kubelet(node string) identity {
	return identity{"system:node:" + node, []string{"system:nodes", "system:authenticated"}}
}

func (i identity) String() string { return i.user[strings.LastIndex(i.user, ":")+1:] }

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	poll.Until(t, what, patience, check)
}
