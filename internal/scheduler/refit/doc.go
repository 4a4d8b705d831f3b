// Package refit writes decisions for pods that are resized in place on nodes where Berth decides
// (docs/protocol.md, "Resizes in place"). It does so after the kubelet has allocated the amounts.
// The new decision replaces the pod's annotation and has a larger generation. If there is no room,
// the pod gets a condition and an event. Package refit tries the pod again when a report arrives or
// a pod leaves.
package refit
