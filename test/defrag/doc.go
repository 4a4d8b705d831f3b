// Command defrag fills a cluster of hollow nodes with replicas, creates pods that fit nowhere, and
// makes room for them by moving other pods (internal/defrag, internal/moving). It repeats this for
// many plans. The last line is JSON. It counts the plans, the plans that made room, and three
// errors: violated PodDisruptionBudgets, pods that a kubelet rejected, and plans that made the
// cluster worse.
package main
