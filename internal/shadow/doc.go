// Package shadow judges predictions. It is told which pods other schedulers bind, what the ledger
// expects of their kubelets (ledger.Witness), and what these did (ledger.PromiseOutcome). It counts
// how often that agrees.
//
// A pod is counted once. It is judged only if the expectation was there before the answer and
// nothing else can explain a difference; otherwise it is counted under the Reason why it is not
// judged. An answer that the API shows is judged when the node's agent has written after it: an
// agent that tells then of a kubelet that has started since makes it unjudged.
//
// The package is pure: it has no clock and does no I/O. Everything it remembers has a bound.
package shadow
