package gangs

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one rule about gangs that can be switched off.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// CompleteFirst: members wait until as many exist as must start together. Off: a gang is tried
	// with the existing members.
	CompleteFirst Rule = 1 << iota
	// FreshObject: a plan uses the gang's object as read after the last member came. Off: as the
	// watch has shown it.
	FreshObject
	// PlanWhole: places are reserved for all required members, or for none. Off: one by one.
	PlanWhole
	// Barrier: no member is bound before all have their places. Off: each as soon as it has its
	// own.
	Barrier
	// DropOnFailure: if a member fails, the other members lose their places. Off: they wait for it.
	DropOnFailure
	// Deadline: members that are bound are deleted when the others do not get nodes in time.
	Deadline
	// WholeStays: after a gang was complete once, the scheduler does not delete its members.
	WholeStays
	// WholeStored: the next leader can read in the API that a gang was complete.
	WholeStored
	// ClosingMark: the Binding that completes a gang records this. Off: only a later write does.
	ClosingMark
	// EvictForWhole: pods of lower priority are evicted only if the whole gang fits afterwards.
	// Off: for any member without a place.
	EvictForWhole
	// CountLeaving: resources of terminating pods count as free for the gang before others are
	// evicted. Off: only resources that are free now.
	CountLeaving
	// InOrder: if a plan works in only one order, a member is bound when a report shows that the
	// members before it were admitted. Off: when the members before it are bound.
	InOrder
	// KeepRoom: places of members that wait for their turn stay reserved. Off: other pods may take
	// them.
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
	Part           // places are held for fewer members than the minimum
	Partial        // fewer members than the minimum stay bound forever
	Torn           // a member of a gang that was complete is deleted
	InVain         // a member is bound and deleted, and no Binding failed
	Starved        // a gang fits, perhaps after evictions, but waits forever
	Evicted        // a pod is evicted although the gang does not need its place
	Refused        // a kubelet refuses a member, because the members came in the wrong order
)

var breachNames = [...]string{"kept", "places held for a part", "partial", "torn", "started in vain", "starved", "evicted in vain", "refused"}

// String describes the broken promise.
func (b Breach) String() string { return breachNames[b] }
