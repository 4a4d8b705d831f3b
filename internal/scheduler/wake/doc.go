// Package wake says which pods that want a node are tried again, and when. It speaks of ids, so
// that it serves a scheduler and a simulator alike. testdata/*.txt tells its rules as stories.
//
// A pod is among the Waiters from the begin of its first attempt until it has a node. When a node
// changes, each class of pods is put to it once, and the pods of the class for which the change can
// make a difference are woken:
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
// Where a node has room for fewer than want it, the others follow in rounds for as long as there is
// room. A kubelet may admit pods of one second in any order, so that a promise to one of them keeps
// the others off until a report: then one of each second and namespace is woken, of whatever shape.
//
// A change has a budget, because tenants choose how many classes there are. It is put to at most
// 128 classes at once, those of one namespace in turn with those of others. The other classes are
// asked about behind: after every pause at most 512 in all, node by node in turn. No question is
// asked under a lock.
//
// A node remembers what it said about 16 shapes. Where more of them wait, nobody can tell whether
// it took a pod before the change as well, so that each report would wake pods that other plugins
// refuse. For such shapes at most 128 pods are woken between two pauses. Half of the turns go round
// the ring, so that every shape has one; the others begin again with the first class of each
// namespace.
package wake
