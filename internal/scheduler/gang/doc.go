// Package gang places pods that start together: planned whole, bound whole, or not at all.
//
// A member is held in PreEnqueue until its group is complete and the group's object is known to be
// as new as its newest member. Then the gate lets one member through, the leader. Its PreFilter
// plans all members without changing anything: on copies of the scheduler's nodes, with the
// framework's own filters, and on forks of the ledgers (package plan). A plan that reaches the
// minimum is reserved as a whole in the ledgers. The other members follow the leader in the queue
// (Follow), each gets exactly its planned node, and in Permit they wait for each other. Then they
// are bound, on each node in the order of the plan.
//
// # States of a group
//
// Package gangs defines the phases of a group, and how each event changes them (gangs.Next). This
// package adds the clock, the scheduling framework and the API. The book knows groups and members.
// An attempt plans from its copies and returns its outcome. The barrier makes members wait, the
// evictor evicts other pods, and the teller writes to the API. Groups receives events and calls the
// other parts.
//
//	incomplete   fewer pods than the minimum, or its object is missing or wrong
//	unconfirmed  its object may be older than its members, and is read again
//	ready        its leader is on the way to PreFilter
//	reserved     planned whole, until the deadline: its members are in their cycles, or in Permit
//	binding      all have passed Permit
//	settled      the minimum has nodes; the others are placed one by one
//	backed off   a plan was not possible, or was dropped: not tried before some time
//	parked       it did not fit: not tried before a change that could help
//	ending       it was not whole in time, and its bound members are being deleted
//
// A group that was whole once stays settled, whatever happens to members later.
//
// Any failure before Permit drops the plan, unless the minimum is reached without the failed
// member. A failure after it leaves members bound, and the others are planned again until the
// deadline. Then the gang's object and pods are read from the API server. If these do not show a
// whole gang either, the bound members are deleted, by UID.
//
// Replicas that do not lead keep the same account, and write and delete nothing (package lead).
//
// # What is held, and what is stored
//
// All state here can be rebuilt from the API: members from pods, the minimum from the group's
// object or the pods' annotations. The deadline counts from the moment at which this process, as
// the leader, first saw a bound member, so that no other clock decides when pods are deleted. The
// status of the group's object shows if it was whole once. If it has no object, the condition
// wire.GangWholeCondition of a bound member shows it.
//
// The lock of the book is never held while the framework is called, because PreEnqueue is called
// with the lock of the scheduling queue.
package gang
