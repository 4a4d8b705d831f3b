// Package gang places pods that start together: all members that the minimum needs get nodes, or
// none do.
//
// PreEnqueue holds each member until its group is complete and a request to the API server has
// confirmed the group's object. Of a complete group, PreEnqueue lets only one member, the leader,
// into the queue. The PreFilter call for the leader plans all members: on copies of the scheduler's
// nodes, with the framework's own filters, and on forks of the ledgers (package plan). A plan that
// reaches the minimum is reserved as a whole in the ledgers. Follow then takes the other members
// from the scheduling queue, directly after the leader. Each member gets exactly its planned node,
// and waits in Permit for the other members. After Permit, the members on one node are bound in the
// order of the plan.
//
// # States of a group
//
// Package gangs defines the phases of a group, and how each event changes them (gangs.Next). This
// package adds the clock, the scheduling framework and the API. The book stores the groups and
// their members. An attempt plans with copies of the book's data, and returns an outcome. The
// barrier makes members wait, the evictor evicts other pods, and the teller writes to the API. The
// type Groups receives events and calls the other parts.
//
//	incomplete   fewer pods than the minimum, or its object is missing or wrong
//	unconfirmed  its object may be older than its members, and is being read again
//	ready        its leader may be tried, and will run PreFilter
//	reserved     the plan is reserved until the deadline: its members are in their cycles, or in Permit
//	binding      all have passed Permit
//	settled      the minimum has nodes; the others are placed one by one
//	backed off   a plan was not possible or was dropped: it is not tried for some time
//	parked       it did not fit: it is not tried before a change that could help
//	ending       it missed its deadline, and its bound members are being deleted
//
// A group is whole when its minimum has nodes. A whole group stays whole, so that no deadline
// deletes its members. If a whole group loses members, new members wait until the minimum can have
// nodes again. If wire.Gang.Once is set, a whole group stays settled instead, and new members are
// placed one by one.
//
// If a member fails before all planned members have passed Permit, and the other members do not
// reach the minimum, the plan is dropped. If a member fails later, the other planned members are
// bound, and the missing members are planned again until the deadline. At the deadline, the gang's
// object and pods are read from the API server. If the gang is not whole there either, the bound
// members are deleted, by UID.
//
// A scheduler replica that is not the leader keeps the same state, but writes and deletes nothing
// (package lead).
//
// # State
//
// The state of this package can be rebuilt from the API: members from pods, the minimum from the
// group's object or the pods' annotations. The deadline counts from the moment at which this
// process, as the leader, first saw a bound member, so that no other clock decides when pods are
// deleted. The status of the group's object shows whether the group was ever whole. If the group
// has no object, the condition wire.GangWholeCondition of a bound member shows it.
//
// No code calls the framework while it holds the lock of the book, because the scheduling queue
// calls PreEnqueue with its own lock held.
package gang
