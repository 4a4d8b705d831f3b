// Package moving carries out a plan of internal/defrag on a cluster: it moves pods one after the
// other so that a pod that waits finds room.
//
// A pod that is evicted is made anew by its controller, and nobody can say beforehand where the new
// one goes. So its place is taken first, by a holder: a pod that asks for the same, of the same
// priority, that has to go to the new node, and does nothing. Scheduler and kubelet count it like
// any other pod. When the new pod waits it is nominated for that node (status.nominatedNodeName),
// which keeps pods of its priority and below from the place, and the holder is deleted. In the same
// way the pod that room is made for is nominated for its node from the beginning.
//
//	hold      the holder is bound to the new node, or nothing has happened; places that are free
//	          from the beginning are all held before the first pod is evicted, others when a step
//	          has freed them
//	evict     through the Eviction API, which keeps PodDisruptionBudgets
//	hand over the new pod is nominated, the holder deleted, the new pod bound
//
// Whenever the cluster is not as the plan has it, Run stops: ErrChanged. Holders are deleted then,
// and none outlives HolderLife. A pod of a higher priority may take any place; then Run stops, too.
package moving
