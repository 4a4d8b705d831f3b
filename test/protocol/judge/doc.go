// Package judge is a small exhaustive model of shadow mode: other schedulers bind two pods to one
// node, a prediction is made for each before the kubelet's answer, and the answer is counted as
// right, as wrong, or as not judged.
//
// The node has CPUs 0 and 1. Pod a asks for one, b for both. The kubelet gives the lowest free
// ones, and so does the prediction: it is never wrong if it knows what the kubelet knew. Shadow
// mode watches pods and reports, each watch in its own time.
//
// Check walks every reachable state breadth first and returns the shortest run in which a pod is
// counted as it must not be. Each Rule can be switched off, so that the tests show what it closes.
// testdata has the runs.
package judge
