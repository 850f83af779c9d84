package webhooks

import (
	"encoding/base64"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// configurationKinds are the kinds of objects that have webhooks.
var configurationKinds = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}

// Redirect changes rendered objects so that the API server asks port on this
// machine, and returns the host names that it verifies the certificate for. The
// API server looks services up itself: one that is a name for another host is
// called there, with the port of the webhook.
func Redirect(objects []*unstructured.Unstructured, port int) ([]string, error) {
	services := map[string]bool{}
	err := eachClient(objects, func(client map[string]any) error {
		service, _ := client["service"].(map[string]any)
		if service == nil {
			return fmt.Errorf("redirect webhooks: one has no service")
		}
		services[fmt.Sprint(service["namespace"], "/", service["name"])] = true
		service["port"] = int64(port)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, object := range objects {
		if object.GetKind() == "Service" && services[object.GetNamespace()+"/"+object.GetName()] {
			object.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
			hosts = append(hosts, object.GetName()+"."+object.GetNamespace()+".svc")
		}
	}
	if len(hosts) != len(services) {
		return nil, fmt.Errorf("redirect webhooks: of %d services %d are among the objects", len(services), len(hosts))
	}
	slices.Sort(hosts)
	return hosts, nil
}

// Inject puts the bundle into all webhooks, as cert-manager does.
func Inject(objects []*unstructured.Unstructured, caBundle []byte) error {
	return eachClient(objects, func(client map[string]any) error {
		client["caBundle"] = base64.StdEncoding.EncodeToString(caBundle)
		return nil
	})
}

// eachClient visits the client configurations of all webhooks.
func eachClient(objects []*unstructured.Unstructured, visit func(map[string]any) error) error {
	for _, object := range objects {
		if !slices.Contains(configurationKinds, object.GetKind()) {
			continue
		}
		webhooks, _ := object.Object["webhooks"].([]any)
		for _, entry := range webhooks {
			webhook, _ := entry.(map[string]any)
			client, _ := webhook["clientConfig"].(map[string]any)
			if client == nil {
				return fmt.Errorf("read %s %s: a webhook has no clientConfig", object.GetKind(), object.GetName())
			}
			if err := visit(client); err != nil {
				return err
			}
		}
	}
	return nil
}
