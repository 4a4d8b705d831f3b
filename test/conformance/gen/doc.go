// Package gen makes up cases: machines, configurations, device pools, pods and events, all from a
// seed.
//
// Most machines are small and pods are sized after them, so that nodes fill up and admission has
// something to decide. The cost of a case for the kubelet, which tries every combination of hints,
// is bounded.
package gen
