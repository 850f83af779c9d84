// Package pod is the controller that reports pods of packages that cannot
// start, under podState keys on their node: images that cannot be pulled,
// configuration that is missing, volumes that do not mount. A report goes when
// the pod starts or is gone.
//
// It works by node, like the job controller. It writes only when a report
// changes, and never on a start that goes well.
//
// It must not write any key of another controller, change pods, or look at
// pods that are not of packages.
package pod
