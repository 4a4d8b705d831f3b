// Package conformance holds the engine against the genuine kubelet.
//
// Random cases (package gen) are played to the managers of k8s.io/kubernetes (package oracle) and
// to the engine (test/replay/play), in one process, and every verdict, hint, CPU, memory block,
// device and book is compared. Because a kubelet can hang or crash, that process is a child of the
// test's, watched and renewed (Pool). A difference is shrunk to a small case and printed as a line
// that `go run ./test/replay` reads.
package conformance
