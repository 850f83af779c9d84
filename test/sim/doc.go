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
// After every write the checks of checks.go look at what it did. At the end of
// a schedule the world is left alone until it rests, and every node must be
// complete, erroring, or wait for something that can be named. Then all is
// repaired, and everything must become complete; then all NodeWrights are
// deleted, and nothing of them may be left on nodes.
//
// The package must not decide anything that a planner decides.
package sim
