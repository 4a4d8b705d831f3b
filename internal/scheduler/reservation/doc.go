// Package reservation is the controller of Koordinator's Reservations: objects that hold a place on
// a node for future pods, their owners.
//
// A Reservation is planned by the framework's own cycle: a pod that stands for it waits in the
// scheduling queue with the priority of its template. The result is held by the node's account
// (ledger.Holding), and by a pod in the scheduler's cache that cannot be evicted. The object's
// annotation has the decision, and its status the node, so every later leader holds it too.
//
//	waiting   no place yet: its pod is in the queue, or in its cycle
//	placed    its place is held; owners come and go
//	over      nothing is held: an owner has used it up, it has expired, failed or is gone
//
// An owner that leaves the queue is sent to its place first. During its cycle the pod in the cache
// leaves room for it, so that every plugin sees the room. The scheduler handles one pod at a time,
// so no other pod gets it. If an owner cannot have its place, it is tried again at once, like any
// other pod.
//
// The rest of a place follows from the object and from the Bindings of its owners
// (wire.AllocatedAnnotation). Everything is rebuilt from the API, without running totals. A status
// that is not valid, for example a forged one, is reverted, and the Reservation is planned again.
package reservation
