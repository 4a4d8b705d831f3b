// Package shadow judges predictions. Its input is the pods that other schedulers bind, the ledger's
// predictions about their kubelets (ledger.Witness), and the kubelets' answers
// (ledger.PromiseOutcome). It counts how often they agree.
//
// A pod is counted once. It is judged only if the prediction existed before the answer and only a
// wrong prediction can explain a difference. Otherwise it is counted under the Reason why it is not
// judged. An answer that the API shows is judged after the node's agent has written again. If the
// agent then reports a newer start of the kubelet, the pod is not judged.
//
// The package is pure: it has no clock and does no I/O. Its use of memory is bounded.
package shadow
