// Package witness is berth-scheduler's shadow mode, which places no pods and writes nothing. It
// feeds the scheduler's own accounts of the nodes (package nodes) with the pods that other
// schedulers bind. Package shadow judges the accounts' predictions of the kubelets' answers.
package witness
