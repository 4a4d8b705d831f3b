// Command defrag plays a cluster of hollow nodes that is full of replicas, makes pods wait that fit
// nowhere, and makes room for them by moving others (internal/defrag, internal/moving), plan after
// plan. Its last line is JSON: how many plans there were, how many made room, and what must not be:
// PodDisruptionBudgets that were broken, pods that a kubelet refused, and plans after which the
// cluster was worse than before.
package main
