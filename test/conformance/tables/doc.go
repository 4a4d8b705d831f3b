// Package tables runs the kubelet's own unit tests and holds the engine against them.
//
// The tables of those tests are variables inside functions of other modules' test files: they can
// neither be imported nor, by our rules, copied. So the functions under test are watched instead:
// with go test -overlay the kubelet's tests are compiled with each such function renamed and
// wrapped by one that writes its input and its result to a file (shims/). The tests themselves make
// sure that the results are the expected ones; here every recorded call is made to the engine.
package tables
