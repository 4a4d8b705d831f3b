// Package moving carries out a plan of internal/defrag on a cluster: it moves pods one after the
// other so that pods that wait find room.
//
// A pod that is evicted is made again by its controller, and nobody can say beforehand where the
// new one goes. So its place is taken first, by a holder: a pod that asks for the same, of the same
// priority, that has to go to the new node, and does nothing. Scheduler and kubelet count it like
// any other pod. When the new pod waits it is nominated for that node (status.nominatedNodeName),
// which keeps pods of its priority and below from the place, and the holder is deleted.
//
// A nomination keeps only a place into which the pod fits already. Until the last pod has moved the
// wanted pods fit nowhere. So guards go to the nodes that the plan needs: pods that ask for
// nothing, and beside which no scheduler puts another (anti-affinity to every pod, by node).
// Holders of the same plan pass, and pods of DaemonSets.
//
//	hold      the holder is on the new node and admitted there, or nothing has happened; places
//	          that are free from the beginning are all held before the first pod is evicted,
//	          others when a step has freed them
//	guard     nobody else comes to the node that the pod leaves, to those of the wanted pods, and
//	          to those of places that are not held yet
//	evict     through the Eviction API, which keeps PodDisruptionBudgets
//	hand over the new pod is nominated, the holder deleted, the new pod bound, the old one gone
//	arrive    when all have moved the wanted pods are nominated and the guards deleted
//
// Whenever the cluster is not as the plan has it, Run stops: ErrChanged. Holders and guards are
// deleted then, and none outlives HolderLife. A pod of a higher priority may take any place; then
// Run stops, too. Guards keep nobody off where a node lacks the label kubernetes.io/hostname, or a
// scheduler runs without InterPodAffinity: then Run is as safe, and stops more often.
package moving
