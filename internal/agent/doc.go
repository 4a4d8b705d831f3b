// Package agent publishes the state of one node as a NodeTopology: the machine, the kubelet's
// configuration, and the present allocations. If configured, it also writes a NodeResourceTopology,
// a Numatopology or a Device for other programs. It writes only changes, and renews a Lease as its
// heartbeat.
//
// In each step (mirror.step), the agent reads the kubelet's checkpoints (books.go), collects the
// other inputs of a report (read.go), judges them (judge.go, a pure function) and publishes a
// report (publish.go). testdata has test cases with the published reports.
//
// # Reports
//
// A report is one consistent reading of the kubelet's checkpoints, from which the scheduler can
// predict the kubelet: shared CPUs, memory tables, device pools, the resources of each pod, and the
// pods that the kubelet has admitted. The kubelet replaces the files one by one, and one allocation
// takes several replacements. So the agent uses a reading only if these conditions are true:
//
//  1. Two readings in a row are equal byte by byte. In each reading, the agent reads the file
//     allocated_pods_state first. The kubelet writes this file last, right after it has admitted a
//     pod (pkg/kubelet/allocation, AddPod), and admits one pod at a time. So the other files
//     contain the assignments of all pods that allocated_pods_state lists.
//  2. No admission is in progress. While the kubelet admits a pod, the pod has resources but is not
//     yet in allocated_pods_state, and its allocation may be incomplete. The agent waits for the
//     end of the admission. Until then the kubelet admits no other pod.
//  3. The engine accepts the reading (placement.Model.StateOf). For example, every CPU is shared or
//     held, and every byte is free or reserved.
//
// If the readings stay contradictory, the agent publishes a report with Ready=False and a message.
// It does the same if the engine cannot predict a kubelet with the node's configuration. The
// scheduler must not pin pods on a node whose report is not Ready.
//
// # Pods that end
//
// The kubelet releases an ended pod's resources when it next admits a pod, and CPUs also every
// cpuManagerReconcilePeriod (removeStaleState). Until then its checkpoints contain them. The
// kubelet keeps the resources of the pods in its own list of active pods, which the API server does
// not show. For a moment, a pod may be Succeeded in the API and still active in the kubelet. The
// PodResources API lists active pods. The agent reports a pod as Ended only after the pod has left
// that list. A pod never returns to the list. The pod's resources are then available to the next
// admission. If the agent cannot use that API, it waits for a fixed time instead. Before Kubernetes
// 1.34, the list contains terminal pods until they are deleted. For these pods the agent also waits
// for the fixed time.
//
// # Changes that the kubelet does not see
//
// A kubelet reads its configuration and its machine once, when it starts. The report describes the
// running kubelet. The condition KubeletCurrent lists later changes. Three times a second, the
// agent compares the configuration's files and sysfs with the last reading. When a kubelet starts,
// it creates its sockets again, and the agent reads everything again. If /configz does not answer
// yet, the agent asks again after at most about half a second.
//
// # Order
//
// Pods keep the order in which the agent first saw them admitted. If several pods appear in the
// same reading, they are ordered by creation.
package agent
