// Package gang places pods that start together: all members that the minimum needs get nodes, or
// none do.
//
// A member is held in PreEnqueue until its group is complete and the group's object is known to be
// as new as its newest member. Then PreEnqueue lets only one member, the leader, into the queue.
// Its PreFilter plans all members without changing anything: on copies of the scheduler's nodes,
// with the framework's own filters, and on forks of the ledgers (package plan). A plan that reaches
// the minimum is reserved as a whole in the ledgers. The other members follow the leader in the
// queue (Follow). Each gets exactly its planned node, and waits in Permit for the others. Then they
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
//	unconfirmed  its object may be older than its members, and is being read again
//	ready        its leader may be tried, and will run PreFilter
//	reserved     the plan is reserved until the deadline: its members are in their cycles, or in Permit
//	binding      all have passed Permit
//	settled      the minimum has nodes; the others are placed one by one
//	backed off   a plan was not possible or was dropped: it is not tried for some time
//	parked       it did not fit: it is not tried before a change that could help
//	ending       it missed its deadline, and its bound members are being deleted
//
// A group is whole when its minimum has nodes. It stays whole, so that no deadline deletes its
// members. If it loses members later, new members wait until the minimum can have nodes again. With
// wire.Gang.Once, the group stays settled instead, and new members are placed one by one.
//
// If a member fails before all have passed Permit, the plan is dropped unless the other members
// reach the minimum. If a member fails later, some members are bound, and the others are planned
// again until the deadline. At the deadline, the gang's object and pods are read from the API
// server. If these do not show a whole gang either, the bound members are deleted, by UID.
//
// Replicas that do not lead maintain this state too, but write and delete nothing (package lead).
//
// # State
//
// All state here can be rebuilt from the API: members from pods, the minimum from the group's
// object or the pods' annotations. The deadline counts from the moment at which this process, as
// the leader, first saw a bound member, so that no other clock decides when pods are deleted. The
// status of the group's object shows whether the group was whole once. If it has no object, the
// condition wire.GangWholeCondition of a bound member shows this.
//
// No code calls the framework while it holds the lock of the book, because the scheduling queue
// calls PreEnqueue with its own lock held.
package gang
