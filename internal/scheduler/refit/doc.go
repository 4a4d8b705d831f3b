// Package refit writes decisions for pods that are resized in place on nodes where Berth decides
// (docs/protocol.md, "Resizes in place"). It writes a decision after the kubelet has allocated the
// new amounts. The new decision replaces the decision in the pod's annotation and has a larger
// generation. If the node lacks resources for the new amounts, refit writes a condition and an
// event for the pod. It tries the pod again when a report arrives or a pod leaves the node.
package refit
