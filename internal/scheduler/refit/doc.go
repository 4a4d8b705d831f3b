// Package refit writes decisions for pods that are resized in place on nodes where Berth decides
// (docs/protocol.md, "Resizes in place"), after the kubelet has allocated the amounts. The decision
// is an annotation of the pod with a larger generation. Without room the pod gets a condition and
// an event, and is tried again when a report comes or a pod leaves.
package refit
