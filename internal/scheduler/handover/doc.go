// Package handover makes a change of leaders safe while Bindings are under way. A Binding is under
// way while the API server may still carry out the request.
//
// A leader that dies may have sent Bindings that the API server has not written yet. The next
// leader does not know the nodes of these Bindings. So a leader records in a Lease whether Bindings
// are under way, and the next leader reads the Lease before it places its first pod:
//
//	the Lease says           the new leader
//	there is no Lease        begins at once if no pod has a decision; otherwise as with under-way
//	none                     waits until the kubelets know of force-deletions that came before its watch began
//	under-way, or unreadable waits for the same time, and fences every pod that could be bound; see fenceType
//
// The fencing ends after Options.BindTimeout at the latest, because by then the API server has
// given up all Bindings that were under way.
package handover
