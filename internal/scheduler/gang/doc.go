// Package gang places gangs, which are pods that start together. Either enough members for the
// gang's minimum get nodes, or none keeps its node. The package calls its record of a gang and its
// members a group.
//
// PreEnqueue holds each member until its group is complete and a request to the API server has
// confirmed the group's object. Of a complete group, PreEnqueue lets only one member, the leader,
// into the queue. The PreFilter call for the leader plans all members. It runs the framework's own
// filters on copies of the scheduler's nodes, and asks forks of the ledgers (package plan). A plan
// that reaches the minimum is reserved as a whole in the ledgers. Follow then takes the other
// members from the scheduling queue, directly after the leader. Each member gets exactly its
// planned node, and waits in Permit for the other members. After Permit, the members on one node
// are bound in the order of the plan.
//
// # States of a group
//
// Package gangs defines the phases of a group, and how each event changes them (gangs.Next). This
// package adds the clock, the scheduling framework and the API. The book stores the groups and
// their members. An attempt plans with copies of the book's data, and returns an outcome. The
// barrier makes members wait, the admitter admits groups with minResources, the evictor evicts
// other pods, and the teller writes to the API. The type Groups receives events and calls the other
// parts.
//
//	incomplete   fewer pods than the minimum, or its object is missing or wrong
//	unconfirmed  its object is being read again, because the known version may be outdated
//	ready        its leader may be tried: PreFilter then plans the group
//	reserved     a plan is reserved: its members are on their way to Permit, or wait there
//	binding      all members of the plan have passed Permit
//	settled      enough members for the minimum have nodes; the others are placed one by one
//	backed off   a plan was not possible or was dropped: it is not tried for some time
//	parked       it did not fit: it waits for a change that could help, or for gangs.LongestWait
//	ending       it missed its deadline, and its bound members are being deleted
//
// A group becomes whole when enough members for its minimum have nodes. A whole group stays whole,
// and no deadline deletes its members. If a whole group loses so many members that it falls below
// its minimum, its members without nodes are planned together again. If wire.Gang.Once is set, they
// are placed one by one instead.
//
// If a member fails before all planned members have passed Permit, and the other members do not
// reach the minimum, the plan is dropped. If a member fails later, the other planned members are
// bound, and the missing members are planned again until the deadline. At the deadline, the gang's
// object and pods are read from the API server. If the gang is not whole according to the API
// server either, the bound members are deleted, by UID.
//
// A scheduler replica that is not the leader keeps the same state, but writes and deletes nothing
// (package lead).
//
// # State
//
// The state of this package can be rebuilt from the API: members from pods, the minimum from the
// group's object or the pods' annotations. The time until the deadline begins when this process, as
// the leader, first sees a bound member, so the clocks of other machines do not affect when pods
// are deleted. The status of the group's object shows whether the group was ever whole. If the
// group has no object, the condition wire.GangWholeCondition of a bound member shows it.
//
// No code may call the framework while it holds the lock of the book. The scheduling queue holds
// its own lock when it calls PreEnqueue, which takes the lock of the book, so the opposite order
// could deadlock.
package gang
