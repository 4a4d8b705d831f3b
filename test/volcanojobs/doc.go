// Command volcanojobs runs Jobs of batch.volcano.sh beside single pods on a real API server with
// hollow nodes, agents, Berth's scheduler and berth-controller, and demands that every Job ends as
// its spec says:
//
//	volcanojobs -seed=7 -jobs=60
//
// What is asked is a Plan, which a seed alone determines: Jobs that complete, fail, abort, are
// restarted until maxRetry, complete with their master, ask for policies of nodes, are urgent and
// evict others, are refused, fit nowhere, or run until they are deleted; and pods beside them.
// Meanwhile controller and scheduler are killed at moments that the plan names, and started again.
//
// Watched throughout: no kubelet refuses a pod, and a placement marked exact is what the kubelet's
// managers gave. In the end nothing is left of what is gone.
//
// The last line of the output is JSON. The exit code is 1 when something was not as it must be.
//
// make e2e-volcano builds and runs it.
package main
