// Package gang places pods that start together: planned whole, bound whole, or not at all.
//
// A member is held in PreEnqueue until its group is complete and the group's object is known to be
// as new as its newest member. Then the gate lets one member through, the leader. Its PreFilter
// plans all members on a trial: on copies of the scheduler's nodes with the framework's own
// filters, and on forks of the ledgers (package plan). A plan that reaches the minimum is reserved
// as a whole in the ledgers. The mates follow the leader in the queue (Follow), each gets exactly
// its planned node, and in Permit they wait for each other. Then they are bound, on each node in
// the order of the plan.
//
// # What becomes of a group
//
// Package gangs says what is done about a group, by its phase, and how each event changes it
// (gangs.Next). This package is the clock, the scheduling framework and the API around that. The
// book knows groups and members. An attempt plans by what it has taken down, and returns its
// outcome. The barrier makes members wait, the evictor has other pods go, and the teller writes to
// the API. Groups take events in and have the others do what follows.
//
//	incomplete   fewer pods than the minimum, or its object is missing or wrong
//	unconfirmed  its object may be older than its members, and is asked for again
//	ready        its leader is on the way to PreFilter
//	reserved     planned whole, until the deadline: its members are in their cycles, or in Permit
//	binding      all have passed Permit
//	settled      the minimum has nodes: the others go their own ways
//	backed off   a plan was not possible, or was dropped: not before a moment
//	parked       it did not fit: not before something has changed that could help
//	ending       it was not whole in time, and its bound members are being deleted
//
// A group that was whole once stays so, whatever happens to members later.
//
// Any failure before Permit drops the plan, unless the minimum is reached without the member that
// failed. A failure after it leaves members bound: the others are planned again, until the
// deadline. Then the API server is asked for the gang's object and pods, and if it does not say
// either that the gang is whole, the ones that are bound are deleted, by UID.
//
// Replicas that do not lead keep the same account, and write and delete nothing (package lead).
//
// # What is held, and what is remembered
//
// Everything here can be rebuilt from the API: members from pods, the minimum from the group's
// object or the pods' annotations. The deadline counts from the moment at which this process, as
// the leader, first saw a member bound: nobody else's clock decides when pods are deleted. Whether
// a group was whole once is told by the status of its object, or by the condition
// wire.GangWholeCondition of a bound member.
//
// The lock of the book is never held while the framework is called: PreEnqueue comes with the lock
// of the scheduling queue.
package gang
