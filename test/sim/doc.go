// Package sim runs the real planners of the operator against a model of a
// cluster, in thousands of random schedules. Each schedule follows from a seed:
// the same seed gives the same schedule, step by step.
//
// The model holds what an API server holds, nodes with their annotations as
// bytes, Jobs, pods, NodeWrights, and plays everybody around it: the Job
// controller, kubelets, users, nodes that come and go, an operator that is
// killed between any two writes, requests whose answer is lost or that land
// late, caches that lag. What the reconcilers of the operator do around their
// planners is done here in the same order, without client and queue.
//
// Most worlds have 3 to 8 nodes. A fifth have one or two: there the steps of a
// schedule fall on few nodes, which come into states that many nodes share too few
// steps to reach. TestManyNodes has 200. Taints are played as well: those that keep
// workloads off nodes until NodeWrights are complete there, put at creation or by
// the operator, taken off by it or by users, and one of somebody else that ends
// pods which do not tolerate it.
//
// After every write the checks look at what it did: checks.go, starts.go and
// requests.go at records, work.go at Jobs, pods and grants, workloads.go at cordons
// and interrupts, taints.go at taints. At the end of
// a schedule the world is left alone until it rests, and every node must be
// complete, erroring, or wait for something that can be named. Then all is
// repaired, and everything must become complete; then all NodeWrights are
// deleted, and nothing of them may be left on nodes.
//
// broken_test.go shows of the checks that they can fail.
//
// The package must not decide anything that a planner decides.
package sim
