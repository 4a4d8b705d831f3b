// Package shadow judges predictions. Its inputs are the pods that other schedulers bind, the
// ledger's predictions about their kubelets (ledger.Witness), and the kubelets' answers
// (ledger.PromiseOutcome). It counts how often prediction and answer agree.
//
// Each pod counts once. The package judges a pod only if the prediction was made before the answer,
// and if nothing but a wrong prediction could explain a difference between the two. Otherwise the
// pod counts under the Reason for not judging it. When the API shows an answer, the package waits
// until the node's agent has written to the API again. If the agent then reports that the kubelet
// has restarted, the package does not judge the pod.
//
// The package is pure: it has no clock and does no I/O. Its memory use is limited.
package shadow
