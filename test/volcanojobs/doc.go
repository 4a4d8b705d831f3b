// Command volcanojobs runs Jobs of batch.volcano.sh beside single pods on a real API server with
// hollow nodes, agents, Berth's scheduler and berth-controller, and checks that every Job ends as
// its spec says:
//
//	volcanojobs -seed=7 -jobs=60
//
// A seed alone determines the Plan. Its Jobs complete, fail, abort, are restarted until maxRetry,
// complete with their master, request policies of nodes, preempt others, are refused, fit nowhere,
// or run until they are deleted. Single pods run beside them. Controller and scheduler are killed
// at moments in the plan, and restarted.
//
// Checked throughout: no kubelet refuses a pod, and a placement marked exact equals the assignment
// of the kubelet's managers. In the end nothing is left of deleted objects.
//
// The last line of the output is JSON. The exit code is 1 after a failure.
//
// make e2e-volcano builds and runs it.
package main
