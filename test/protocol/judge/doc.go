// Package judge is a small exhaustive model of shadow mode. Other schedulers bind two pods to one
// node. Shadow mode predicts the kubelet's answer for each pod, and then counts the prediction as
// right, as wrong, or as not judged.
//
// The node has CPUs 0 and 1. Pod a requests one CPU, pod b requests both. The kubelet and the
// prediction both take the lowest free CPUs, so the prediction is right if it knows all that the
// kubelet knew. Shadow mode watches pods and reports, and each watch has its own delay.
//
// Check visits every reachable state, breadth first, and returns the shortest run in which a pod is
// counted wrongly. Each Rule can be switched off, and the tests show the error that it prevents.
// testdata has the runs.
package judge
