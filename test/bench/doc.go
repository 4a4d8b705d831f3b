// Package bench compares the speed of the engine with the genuine kubelet managers, in one process
// and with equal state. It also measures the engine on larger machines and many nodes. It has only
// benchmarks and the tests of their setup. docs/performance.md explains the results.
//
// A benchmark alternates between the kubelet's managers and the engine, so that noise of the
// machine affects both. Figures are medians over these turns, of the CPU time of the calling
// thread.
package bench
