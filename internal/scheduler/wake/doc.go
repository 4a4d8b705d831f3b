// Package wake decides which waiting pods are tried again, and when. It does not depend on
// Kubernetes: it knows the UID, name and priority of a pod, and asks nodes about its
// ledger.Candidate. testdata/*.txt has examples of the rules.
//
// A pod is among the Waiters from the start of its first attempt until it has a node or is gone. A
// pod blames the nodes that did not admit it in its last attempt. A class has the pods about which
// every node gives the same answer. When a node changes, it is asked once about each class, and the
// pods that the change may help are woken:
//
//	event                   the node now                     woken pods
//	NodeChanged             admits the class, did not before as many as it has room for, if they blame the node
//	                        admits it, perhaps as before     the same, within a budget
//	                        admits it, CPUs are now certain  as many as it has room for, if they blame the node
//	                        refuses, waited before           all that blame the node: preemption may help now
//	                        refuses, refused before          the pods that wait for its report
//	                        waits, or admits it as before    none
//	NodeReturned            admits the class                 as many as it has room for, whichever nodes they blame
//	                        waits for a report               the pods in an attempt; the others now blame the node too
//	                        refuses, evictions would help    all, whichever nodes they blame
//	                        refuses for good                 none
//	WakeAll, WakeOne                                         all; the given pod
//
// If more pods wait for a node than it has room for, the remaining pods are woken in later rounds
// as long as there is room. If pods were created in the same second, a kubelet may admit them in
// any order, so a promise to one of them makes the others wait for a report. In this case only one
// pod of each second and namespace is woken, whatever its shape (ledger.Shape).
//
// The number of questions after a change is limited, because tenants may create any number of
// classes. At the change, the node is asked about at most 128 classes; namespaces take turns. It is
// asked about the other classes later: after each RoundPause, all nodes together are asked at most
// 512 questions, and nodes take turns. No question is asked with a lock held.
//
// A node stores its answers for 16 shapes. If more shapes wait, it is not known whether the node
// already admitted a pod before the change, and each report could wake pods that other plugins
// refuse. At most 128 pods of such shapes are woken per RoundPause. Namespaces take turns, and
// within a namespace the shape that has waited longest is first.
package wake
