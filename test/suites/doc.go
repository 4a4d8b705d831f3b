// Command suites runs Kubernetes' own integration tests of its scheduler under kube-scheduler and
// under Berth, and fails if a test passes under the one and not under the other.
//
// The tests are read from the module cache and copied into a temporary folder, in which they make
// their scheduler by package under. They are built as packages of this module, by an overlay and
// with a go.mod of their own: nothing of them is kept. -modfile and -tags name another release of
// Kubernetes, for its tests and the scheduler that is built from it. Package serving is left out,
// since it starts kube-scheduler by flags.
package main
