// Package reservation is the controller side of Koordinator's Reservations: objects that hold a
// node's place for pods to come, their owners.
//
// A Reservation is planned alone, by the framework's own cycle: a pod that stands for it waits in
// the scheduling queue with the priority of its template. What is found is held by the node's
// account (ledger.Holding), and by a pod in the scheduler's cache that nobody can evict. The
// object's annotation has the decision, and its status says where: with that it is held, whoever
// leads.
//
//	waiting   no place yet: its pod is in the queue, or in its cycle
//	placed    its place is held; owners come and go
//	over      nothing is held: an owner has used it up, it has expired, failed or is gone
//
// An owner that leaves the queue is sent to its place first. For the time of its cycle the pod in
// the cache leaves room for it, so that every plugin sees what the owner will. The scheduler takes
// one pod at a time, so nobody else gets that room. An owner that cannot have its place is tried at
// once again, as any other pod.
//
// What is left of a place follows from the object and from the pods that have some of it: their
// Bindings say so (wire.AllocatedAnnotation). So everything here is rebuilt from the API, and
// nothing is counted down. A status that does not hold, as one that was forged, is taken back, and
// the Reservation is planned again.
package reservation
