// Package bench measures the engine beside the genuine kubelet managers, in one process and on
// equal state, and the engine beside itself on larger machines and fleets. It holds only benchmarks
// and the tests that keep them honest; docs/performance.md says how to read them.
//
// What is compared runs in turns, a slice of one and then a slice of the other, so that noise of
// the machine hits both; figures are medians over the turns, of the CPU time of the calling thread.
package bench
