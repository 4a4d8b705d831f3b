// Package shadow judges predictions. Its input is the pods that other schedulers bind, the ledger's
// predictions about their kubelets (ledger.Witness), and the kubelets' answers
// (ledger.PromiseOutcome). It counts how often prediction and answer agree.
//
// Each pod counts once. The package judges a pod only if the prediction existed before the answer,
// and only a wrong prediction could have caused a difference. Otherwise the pod counts under the
// Reason for not judging it. The package judges an answer in the API after the node's agent has
// written again. If the agent then reports a newer start of the kubelet, the package does not judge
// the pod.
//
// The package is pure: it has no clock and does no I/O. Its memory use is limited.
package shadow
