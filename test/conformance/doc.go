// Package conformance compares the engine with the genuine kubelet.
//
// Random cases (package gen) run on the managers of k8s.io/kubernetes (package oracle) and on the
// engine (test/replay/play), in one process. Every verdict, hint, CPU, memory block, device and
// checkpoint is compared. A kubelet can hang or crash, so that process is a child of the test,
// which watches and replaces it (Pool). A difference is reduced to a small case and printed as a
// line that `go run ./test/replay` reads.
package conformance
