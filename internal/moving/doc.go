// Package moving carries out a plan of internal/defrag on a cluster: it moves pods to other nodes,
// one after another, to make room for waiting pods.
//
// An evicted pod is created again by its controller, and its new node is not known in advance. So
// Run first creates a holder: an idle pod with the same requests and priority, which is bound to
// the new node. The scheduler and the kubelet treat the holder like any other pod. When the
// controller has created the new pod, Run nominates the new pod for that node
// (status.nominatedNodeName) and deletes the holder. The nomination keeps other pods of the same or
// a lower priority away from the place.
//
// A nomination protects a place only if the pod already fits there. But the wanted pods fit nowhere
// before the last pod has moved. So Run puts a guard on each node where the plan needs room. A
// guard is a pod that requests no resources. Its anti-affinity covers all pods except holders of
// the same plan and pods of DaemonSets, so schedulers place no other pods on its node.
//
// Run does steps 1 to 4 for each move, and then step 5:
//
//  1. Hold: Run creates the holder, and waits until the kubelet of the new node has admitted it.
//     Before the first eviction, Run holds all places that are free at the beginning. It holds
//     every other place as soon as a step has freed it.
//  2. Guard: Run puts a guard on the node that the pod leaves, on the nodes of the wanted pods, and
//     on nodes with places that are not held yet.
//  3. Evict: Run evicts the pod through the Eviction API, which respects PodDisruptionBudgets.
//  4. Hand over: Run nominates the new pod and deletes the holder. It waits until the new pod is
//     bound and the old pod is gone.
//  5. Arrive: Run nominates the wanted pods and deletes the guards. It waits until the wanted pods
//     are bound.
//
// If the cluster differs from the plan, Run deletes holders and guards, and returns ErrChanged. If
// the process of Run is killed, holders and guards end after HolderLife. If a pod of a higher
// priority takes a held place, Run also returns ErrChanged. Guards have no effect on a node without
// the label kubernetes.io/hostname, or on a scheduler without the plugin InterPodAffinity. Run is
// still safe without guards, but it fails more often.
package moving
