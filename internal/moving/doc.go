// Package moving carries out a plan of internal/defrag on a cluster: it moves pods one after
// another so that waiting pods get room.
//
// An evicted pod is created again by its controller, and its new node is not known in advance. So a
// holder takes its place first: an idle pod with the same requests and priority, bound to the new
// node. Scheduler and kubelet count it like any other pod. When the new pod waits, it is nominated
// for that node (status.nominatedNodeName), which keeps pods of its priority and below from the
// place, and the holder is deleted.
//
// A nomination protects only a place into which the pod already fits, and until the last pod has
// moved the wanted pods fit nowhere. So guards go to the nodes that the plan needs: pods without
// requests, next to which no scheduler places another pod (anti-affinity to every pod, by node).
// Holders of the same plan and pods of DaemonSets are exempt.
//
//	hold      the holder is on the new node and admitted there, or nothing has happened; places
//	          that are free from the beginning are all held before the first pod is evicted,
//	          others when a step has freed them
//	guard     no other pod can come to the node that the pod leaves, to the nodes of the wanted
//	          pods, or to nodes with places that are not held yet
//	evict     through the Eviction API, which keeps PodDisruptionBudgets
//	hand over the new pod is nominated, the holder deleted, the new pod bound, the old one gone
//	arrive    when all have moved the wanted pods are nominated and the guards deleted
//
// If the cluster is not as planned, Run stops with ErrChanged. It then deletes holders and guards,
// and none lives longer than HolderLife. A pod of a higher priority may take any place; then Run
// also stops. Guards have no effect if a node lacks the label kubernetes.io/hostname, or if a
// scheduler runs without InterPodAffinity: Run is then still safe, but stops more often.
package moving
