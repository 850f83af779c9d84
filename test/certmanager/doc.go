// Package certmanager tests the certificates of the webhooks with a real
// cert-manager: its controller and its injector run beside a control plane, on
// the objects of config/default, and the real manager serves what they make.
//
// A goroutine stands for the kubelet: it brings the Secret to the directory that
// the manager reads, late, as a kubelet does.
package certmanager
