// Package agent mirrors one node into the API: the machine, how the kubelet hands it out and what
// is handed out now, as a NodeTopology; and, on request, as a NodeResourceTopology for other
// readers. It writes only when something changed, and a Lease as heartbeat.
//
// One line leads through it: Books are read (read.go), judged (judge.go, a pure function), and
// published (publish.go); run.go says when. testdata has stories of what it then says.
//
// # What a report is
//
// A report is one consistent reading of the kubelet's books, from which a reader can go on as the
// kubelet itself would: shared CPUs, memory tables, device pools, what each pod holds, and which
// pods the kubelet has admitted. The files are replaced one by one, and one allocation takes
// several replacements, so a reading counts only if:
//
//  1. Two readings in a row are equal byte by byte. Within each, allocated_pods_state is read
//     first. The kubelet writes it last, right after it has said yes to a pod
//     (pkg/kubelet/allocation, AddPod), and admits one pod at a time. So whatever pods it names
//     have all that they were given in the other files.
//  2. No pod is on its way in: one that holds something, that is not in allocated_pods_state and
//     that has not ended. Its allocation may be half done. The agent waits; the kubelet, too, does
//     nothing else meanwhile.
//  3. The engine accepts it (placement.Model.StateOf): every CPU is shared or held, every byte free
//     or reserved.
//
// A report that stays contradictory is published with Ready=False and the contradiction in words,
// and so is a configuration that the engine cannot predict: a reader must then not pin pods there.
//
// # Pods that end
//
// The kubelet clears away what a pod held when it next admits one, and CPUs also every
// cpuManagerReconcilePeriod (removeStaleState); until then its books still hold it. It goes by its
// own list of active pods, which the API does not show: a pod may be Succeeded there and active
// here for a moment, or gone there and not yet here. The PodResources API lists active pods. A pod
// is reported as Ended only when it has left that list, which it never enters again: its resources
// then go to the very next admission. Without that API, and for pods that are terminal but not
// deleted before Kubernetes 1.34, whose list has those too, the agent relies on time.
//
// # What the kubelet does not know
//
// A kubelet reads its configuration and its machine once, when it starts. The report says what the
// kubelet that runs does; a condition, KubeletCurrent, says what has changed since. The
// configuration's files are watched, with every symbolic link that leads to them, and read when
// they have been left alone for 50 ms. Sysfs, which tells nobody, is read three times a second. A
// kubelet that starts makes its sockets again: then all is found out again, and a /configz that
// does not answer yet is asked twice a second.
//
// # Order
//
// Pods keep the order in which the agent first saw them admitted; those found together are ordered
// by creation.
package agent
