// Package gen generates cases from a seed: machines, configurations, device pools, pods and events.
//
// Most machines are small, and pods have a matching size, so that nodes fill up and admission has
// to decide. The cost of a case for the kubelet, which tries every combination of hints, is
// bounded.
package gen
