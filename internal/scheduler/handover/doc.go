// Package handover makes a change of leaders safe for Bindings that are under way. It needs a
// Lease, the pods and two durations.
//
// A leader that dies may have sent Bindings that the API server has not written yet, to unknown
// nodes. So a leader records in a Lease whether Bindings are under way. The next leader reads this
// before it places its first pod:
//
//	the Lease says           the new leader
//	nothing, there is none   begins at once if there are no pods; otherwise as with under-way
//	none                     waits until a pod that was deleted by force before it began to watch has reached its kubelet
//	under-way, or unreadable waits likewise, and fences every pod that could be bound; see fenceType
//
// It waits for at most Options.BindTimeout. After that the API server has given up all Bindings
// that were under way.
package handover
