// Package agent mirrors one node into the API as a NodeTopology: the machine, how the kubelet
// assigns it, and what is assigned now. On request it also writes a NodeResourceTopology for other
// readers. It writes only when something has changed, and renews a Lease as heartbeat.
//
// Books are read (read.go), judged (judge.go, a pure function) and published (publish.go); run.go
// controls when. testdata has stories of what is published.
//
// # What a report is
//
// A report is one consistent reading of the kubelet's books, from which a reader can continue as
// the kubelet would: shared CPUs, memory tables, device pools, what each pod holds, and which pods
// the kubelet has admitted. The kubelet replaces the files one by one, and one allocation takes
// several replacements, so a reading counts only if:
//
//  1. Two readings in a row are equal byte by byte. Within each, allocated_pods_state is read
//     first. The kubelet writes it last, right after it has admitted a pod (pkg/kubelet/allocation,
//     AddPod), and admits one pod at a time. So the other files contain everything that its pods
//     were assigned.
//  2. No admission is under way: no pod holds something, is not in allocated_pods_state and has not
//     ended. The allocation of such a pod may be incomplete. The agent waits; the kubelet does
//     nothing else meanwhile.
//  3. The engine accepts it (placement.Model.StateOf): every CPU is shared or held, every byte free
//     or reserved.
//
// A report that stays contradictory is published with Ready=False and a message, and so is a
// configuration that the engine cannot predict. A reader must not pin pods there.
//
// # Pods that end
//
// The kubelet releases what a pod held when it next admits one, and CPUs also every
// cpuManagerReconcilePeriod (removeStaleState); until then its books contain it. It uses its own
// list of active pods, which the API does not show: for a moment, a pod may be Succeeded in the API
// and still active in the kubelet. The PodResources API lists active pods. A pod is reported as
// Ended only when it has left that list, to which it never returns: its resources are then
// available to the next admission. Without that API, and for terminal pods that are not deleted
// before Kubernetes 1.34, which that list includes, the agent relies on time.
//
// # What the kubelet does not know
//
// A kubelet reads its configuration and its machine once, when it starts. The report describes what
// the running kubelet does; the condition KubeletCurrent lists what has changed since. The
// configuration's files are watched, with all symbolic links on the way to them, and read after 50
// ms without a change. Sysfs, which has no notifications, is read three times a second. A starting
// kubelet creates its sockets again: then everything is read again, and a /configz that does not
// answer yet is asked twice a second.
//
// # Order
//
// Pods keep the order in which the agent first saw them admitted; those found together are ordered
// by creation.
package agent
