// Command suites runs Kubernetes' own integration tests of its scheduler with kube-scheduler and
// with Berth. It fails if a test passes with kube-scheduler but not with Berth, or if no test of a
// package has finished.
//
// The tests are copied from the module cache to a temporary folder and changed to create their
// scheduler with package under. They are built as packages of this module, with an overlay and a
// separate go.mod, and deleted afterwards. -modfile and -tags select another release of Kubernetes
// for the tests and the scheduler. Package serving is left out, because it starts kube-scheduler
// with flags.
package main
