// Package wake decides which waiting pods are tried again, and when. It uses ids only, so that a
// scheduler and a simulator can use it. testdata/*.txt has stories of its rules.
//
// A pod is among the Waiters from the start of its first attempt until it has a node. When a node
// changes, it is asked once about each class of pods, and the pods of the class for which the
// change can make a difference are woken:
//
//	what happened           the node now                     who is woken
//	NodeChanged             takes the class, and did not     as many as it has room for, if they blame the node
//	                        takes it, perhaps as before      the same, as the budget allows
//	                        is certain of the CPUs, was not  as many as it has room for, if they blame the node
//	                        refuses, and had waited          all that blame the node: preemption may help them now
//	                        refuses, as it did               the ones that it had kept waiting
//	                        waits, or takes it as before     nobody
//	NodeReturned            takes the class                  as many as it has room for, whomever they blame
//	                        waits for a report               those on trial; the others wait for the node from now on
//	                        refuses, evictions would help    all, whomever they blame
//	                        refuses for good                 nobody
//	WakeAll, WakeOne                                         all; the one
//
// If a node has room for fewer pods than wait for it, the others follow in rounds while there is
// room. A kubelet may admit pods of one second in any order, so a promise to one of them makes the
// others wait for a report: then one pod of each second and namespace is woken, of any shape.
//
// A change has a budget, because tenants choose how many classes there are. The node is asked about
// at most 128 classes at once, with namespaces in turn. Other classes follow later: after every
// pause at most 512 in total, node by node in turn. No question is asked with a lock held.
//
// A node remembers its answers for 16 shapes. If more shapes wait, it is not known whether the node
// admitted a pod before the change too, and each report would wake pods that other plugins refuse.
// For such shapes at most 128 pods are woken between two pauses. Half of the turns go around the
// ring, so that every shape gets one; the others start again with the first class of each
// namespace.
package wake
