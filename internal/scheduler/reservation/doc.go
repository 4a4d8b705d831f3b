// Package reservation is the controller of Koordinator's Reservations. A Reservation holds a place,
// which is an amount of resources on one node, for future pods: its owners.
//
// A Reservation gets its place in an ordinary scheduling cycle. A pod that stands for the
// Reservation, and does not exist in the API, waits in the scheduling queue with the priority of
// the template. After the cycle, the node's account (ledger.Holding) and a pod in the scheduler's
// cache hold the place. The pod in the cache cannot be evicted. The Reservation object has the
// decision in its annotation and the node in its status, so that the next leader also holds the
// place.
//
//	waiting   it has no place yet: the pod that stands for it is in the queue or in its cycle
//	placed    its place is held; owners come and go
//	over      nothing is held: an owner has used it up, or it expired, failed or was deleted
//
// The scheduler first tries to put an owner into the place that the Reservation holds. During the
// owner's cycle, the pod in the cache gives up the owner's part, so that every plugin sees these
// resources as free. No other pod can get these resources meanwhile, because the scheduler handles
// one pod at a time. If the owner does not fit into the place, the scheduler tries the owner again
// at once, without the place.
//
// The unused part of a place is computed from the object and from the Bindings of its owners
// (wire.AllocatedAnnotation). So the state of this package can be rebuilt from the API. If a status
// is not valid, for example because a user has forged it, this package reverts the status and finds
// a new place for the Reservation.
package reservation
