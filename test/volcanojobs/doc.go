// Command volcanojobs runs Jobs of batch.volcano.sh and single pods on a real API server with
// hollow nodes, agents, Berth's scheduler and berth-controller, and checks that every Job ends as
// its spec says:
//
//	volcanojobs -seed=7 -jobs=60
//
// A seed determines the Plan. Its Jobs complete, fail, abort, are restarted until maxRetry,
// complete with their master, request policies of nodes, preempt others, are refused, fit nowhere,
// or run until they are deleted. Single pods run next to them. The plan also says when controller
// and scheduler are killed and restarted.
//
// The program checks all the time that no kubelet refuses a pod, and that a placement marked exact
// equals the assignment of the kubelet's managers. At the end nothing of the deleted objects may be
// left.
//
// The last line of the output is JSON. The exit code is 1 after a failure.
//
// make e2e-volcano builds and runs it.
package main
