// Package agent mirrors one node into the API as a NodeTopology: the machine, the kubelet's rules
// for it, and the present allocations. On request it also writes a NodeResourceTopology for other
// readers. It writes only changes, and renews a Lease as heartbeat.
//
// Books are read (read.go), judged (judge.go, a pure function) and published (publish.go); run.go
// controls when. testdata has stories with the published results.
//
// # Reports
//
// A report is one consistent reading of the kubelet's books, from which a reader can continue as
// the kubelet would: shared CPUs, memory tables, device pools, the resources of each pod, and the
// pods that the kubelet has admitted. The kubelet replaces the files one by one, and one allocation
// takes several replacements. So a reading counts only under these conditions:
//
//  1. Two readings in a row are equal byte by byte. Within each, allocated_pods_state is read
//     first. The kubelet writes it last, right after it has admitted a pod (pkg/kubelet/allocation,
//     AddPod), and admits one pod at a time. So the other files contain their assignments.
//  2. No admission is in progress: there is no pod that holds something, is not in
//     allocated_pods_state and has not ended. The allocation of such a pod may be incomplete. The
//     agent waits; the kubelet does nothing else meanwhile.
//  3. The engine accepts it (placement.Model.StateOf): every CPU is shared or held, every byte free
//     or reserved.
//
// A report that stays contradictory is published with Ready=False and a message. The same applies
// to a configuration that the engine cannot predict. A reader must not pin pods there.
//
// # Pods that end
//
// The kubelet releases an ended pod's resources when it next admits a pod, and CPUs also every
// cpuManagerReconcilePeriod (removeStaleState). Until then its books contain them. It uses its own
// list of active pods, which the API does not show: for a moment, a pod may be Succeeded in the API
// and still active in the kubelet. The PodResources API lists active pods. A pod is reported as
// Ended only when it has left that list, to which it never returns. Its resources are then
// available to the next admission. Sometimes the agent must rely on time instead: without that API,
// and for terminal pods that are not deleted before Kubernetes 1.34, which that list includes.
//
// # Changes that the kubelet does not see
//
// A kubelet reads its configuration and its machine once, when it starts. The report describes the
// running kubelet; the condition KubeletCurrent lists later changes. The agent watches the
// configuration's files, with all symbolic links on the way to them, and reads them after 50 ms
// without a change. It reads sysfs, which has no notifications, three times a second. A starting
// kubelet creates its sockets again. Then the agent reads everything again, and asks a /configz
// that does not answer yet twice a second.
//
// # Order
//
// Pods keep the order in which the agent first saw them admitted. Pods that were found together are
// ordered by creation.
package agent
