// Package tables runs the kubelet's own unit tests and compares the engine with them.
//
// The tables of those tests are variables inside functions of other modules' test files, which
// cannot be imported. So the package records the calls of the functions under test. It compiles the
// kubelet's tests with go test -overlay: each such function is renamed, and a wrapper writes its
// input and its result to a file (shims/). The kubelet's tests check the results, and the package
// repeats every recorded call with the engine.
package tables
