package gangs

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one part of law 8 that can be switched off.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// CompleteFirst: members are held until as many are there as must start together. Off: a
	// gang is tried with the members that are there.
	CompleteFirst Rule = 1 << iota
	// FreshObject: a gang is planned by its object as read after the last member came. Off: as the
	// watch has shown it.
	FreshObject
	// PlanWhole: places are reserved for all required members, or for none. Off: one by one.
	PlanWhole
	// Barrier: no member is bound before all have their places. Off: each as soon as it has its
	// own.
	Barrier
	// DropOnFailure: a member that fails takes the others' places with it. Off: they wait for it.
	DropOnFailure
	// Deadline: members that are bound are deleted when the others do not get nodes in time.
	Deadline
	// WholeStays: after a gang was complete once, the scheduler does not delete its members.
	WholeStays
	// WholeStored: the next leader can read in the API that a gang was complete.
	WholeStored
	// ClosingMark: the Binding that completes a gang says so. Off: only a later write does.
	ClosingMark
	// EvictForWhole: pods of lower priority are evicted only when the whole gang fits then. Off:
	// for any member that lacks a place.
	EvictForWhole
	// CountLeaving: resources of terminating pods count as free for the gang before others are
	// evicted. Off: only resources that are free now.
	CountLeaving
	// InOrder: if a plan works in only one order, a member is bound when a report says that the
	// members before it have been admitted. Off: when they are bound.
	InOrder
	// KeepRoom: places reserved for members that wait for their turn stay reserved. Off: others may
	// have them.
	KeepRoom
	// WaitEnds: no member waits for its turn beyond the deadline, with or without a report.
	WaitEnds

	endOfRules
)

// AllRules are the rules that the scheduler must keep.
const AllRules Rule = endOfRules - 1

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"complete-first", "fresh-object", "plan-whole", "barrier", "drop-on-failure", "deadline", "whole-stays", "whole-stored",
		"closing-mark", "evict-for-whole", "count-leaving", "in-order", "keep-room", "wait-ends",
	}
}

// Breach is a broken promise.
type Breach uint8

// The breaches that Check looks for.
const (
	Kept    Breach = iota
	Part           // places are held for fewer members than start together
	Partial        // fewer members than start together stay bound, and nothing would ever change that
	Torn           // a member of a gang that was whole is deleted
	InVain         // a member is bound and deleted, and no Binding failed
	Starved        // a gang fits, perhaps after evictions, and waits, and nothing would ever place it
	Evicted        // a pod is evicted whose place the gang does not need, or that does not help it
	Refused        // a kubelet refuses a member, because one came before it that should have come after
)

var breachNames = [...]string{"kept", "places held for a part", "partial", "torn", "started in vain", "starved", "evicted in vain", "refused"}

// String describes the broken promise.
func (b Breach) String() string { return breachNames[b] }
