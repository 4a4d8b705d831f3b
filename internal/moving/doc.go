// Package moving carries out a plan of internal/defrag on a cluster: it moves pods one after
// another so that waiting pods get room.
//
// An evicted pod is created again by its controller, and its new node is not known in advance. So a
// holder takes its place first: an idle pod with the same requests and priority, bound to the new
// node. Scheduler and kubelet count the holder like any other pod. When the controller has created
// the new pod, Run nominates the new pod for that node (status.nominatedNodeName) and deletes the
// holder. The nomination keeps other pods of the same or a lower priority away from the place.
//
// A nomination protects a place only if the pod already fits there, and the wanted pods fit nowhere
// before the last pod has moved. So Run puts a guard on each node that the plan needs. A guard is a
// pod without requests whose anti-affinity to every pod keeps schedulers from placing other pods on
// its node. Holders of the same plan and pods of DaemonSets are exempt.
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
// If the cluster is not as planned, Run stops with ErrChanged. It then deletes holders and guards.
// If Run itself is killed, they end after HolderLife. A pod of a higher priority may take any
// place; then Run also stops. Guards have no effect if a node lacks the label
// kubernetes.io/hostname, or if a scheduler runs without InterPodAffinity: Run is then still safe,
// but stops more often.
package moving
