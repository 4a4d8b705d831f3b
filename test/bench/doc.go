// Package bench compares the speed of the engine with the genuine kubelet managers, in one process
// and with equal state. It also measures the engine on larger machines and many nodes. It has only
// benchmarks and the tests of their setup. docs/performance.md explains the results.
//
// What is compared runs in turns, a slice of one and then a slice of the other, so that noise of
// the machine hits both; figures are medians over the turns, of the CPU time of the calling thread.
package bench
