package gangfit

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-dev/berth/internal/amounts"
)

// Room has the resources with which a group's Claim is compared before the group is admitted: the
// resources of the usable nodes, and the requests of the pods on these nodes. The zero value is a
// cluster without nodes.
type Room struct {
	has, used, leaving amounts.List
	// single has the requests of pods outside of gangs, by the priority that another pod must
	// exceed to evict them (protected).
	single map[int32]amounts.List
	gangs  map[string]*crew
}

// crew has the sum of the requests of a gang's members that have nodes, their lowest priority, and
// whether any of them Stays. These members are evicted together or not at all.
type crew struct {
	lowest int32
	stays  bool
	asks   amounts.List
}

// Occupant is a pod on a node: its requests, and the properties that decide whether it may be
// evicted.
type Occupant struct {
	Asks     amounts.List
	Priority int32
	// Gang names the gang of the pod, or is "".
	Gang string
	// Leaving means that the pod is being deleted. Stays means that only pods with the priority
	// SystemCritical or higher may evict it. Fixed means that no eviction frees its resources.
	Leaving, Stays, Fixed bool
}

// SystemCritical is the lowest priority of system-critical pods
// (scheduling.SystemCriticalPriority), which may evict every pod of a lower priority.
const SystemCritical = 2_000_000_000

// protected returns the priority that other pods must exceed to evict a pod with the given
// priority. `stays` is the pod's Occupant.Stays.
func protected(priority int32, stays bool) int32 {
	if stays {
		return max(priority, SystemCritical-1)
	}
	return priority
}

// Offer adds a usable node.
func (r *Room) Offer(allocatable amounts.List) { add(&r.has, allocatable) }

// Hold adds requests of pods on offered nodes. Room counts these pods as pods that cannot be
// evicted.
func (r *Room) Hold(asks amounts.List) { add(&r.used, asks) }

// Take adds a pod that is on an offered node.
func (r *Room) Take(o *Occupant) {
	add(&r.used, o.Asks)
	add(&r.used, onePod)
	switch {
	case o.Fixed:
	case o.Leaving:
		add(&r.leaving, o.Asks)
		add(&r.leaving, onePod)
	case o.Gang != "":
		c := r.gangs[o.Gang]
		if c == nil {
			if r.gangs == nil {
				r.gangs = map[string]*crew{}
			}
			c = &crew{lowest: o.Priority}
			r.gangs[o.Gang] = c
		}
		c.lowest, c.stays = min(c.lowest, o.Priority), c.stays || o.Stays
		add(&c.asks, o.Asks)
		add(&c.asks, onePod)
	default:
		if r.single == nil {
			r.single = map[int32]amounts.List{}
		}
		as := protected(o.Priority, o.Stays)
		sum := r.single[as]
		add(&sum, o.Asks)
		add(&sum, onePod)
		r.single[as] = sum
	}
}

var onePod = amounts.List{amounts.Pods: 1}

func add(sum *amounts.List, more amounts.List) {
	if *sum == nil {
		*sum = amounts.List{}
	}
	sum.Add(more)
}

// Claim has the resources that must be available for a group to be admitted.
type Claim struct {
	// Asked are the resources that the group asks for, minus the resources that its members already
	// have.
	Asked amounts.List
	// Kept are the resources that are kept for groups that were admitted before.
	Kept amounts.List
	// Priority decides which pods the group could evict. EvictsNobody means that it must not evict
	// any.
	Priority     int32
	EvictsNobody bool
	// The nodes' resources are multiplied by Overcommit. A value below 1 means 1.
	Overcommit float64
}

// Shortage describes a resource of which less is available than a group's Claim needs.
type Shortage struct {
	Resource string
	// Asked and Kept are from the Claim. Free is the free amount, which may be negative. Freed is
	// the amount in use by pods that are leaving or could be evicted. Spared is the amount in use
	// by pods that could be evicted without Claim.EvictsNobody.
	Asked, Free, Freed, Kept, Spared int64
	// Overcommit is Claim.Overcommit, with which Free is computed.
	Overcommit float64
}

// Named is the beginning of the text of every Shortage.
const Named = "minResources asks for "

// Short returns the first resource, by name, of which there is too little for a Claim even after
// evictions. It returns nil if there is enough of every resource.
func (r *Room) Short(c *Claim) *Shortage {
	freed := r.freed(c)
	for _, name := range slices.Sorted(maps.Keys(c.Asked)) {
		s := Shortage{Resource: name, Asked: c.Asked[name], Kept: c.Kept[name], Freed: freed[name], Overcommit: c.Overcommit}
		s.Free = times(r.has[name], c.Overcommit) - r.used[name]
		if s.Asked > 0 && amounts.Sum(s.Asked, s.Kept) > amounts.Sum(s.Free, s.Freed) {
			if c.EvictsNobody {
				s.Spared = r.freed(&Claim{Priority: c.Priority})[name] - s.Freed
			}
			return &s
		}
	}
	return nil
}

// freed returns the sum of the requests of pods that are leaving, or that the group could evict.
func (r *Room) freed(c *Claim) amounts.List {
	out := maps.Clone(r.leaving)
	if c.EvictsNobody {
		return out
	}
	for priority, asks := range r.single {
		if priority < c.Priority {
			add(&out, asks)
		}
	}
	for _, crew := range r.gangs {
		if protected(crew.lowest, crew.stays) < c.Priority {
			add(&out, crew.asks)
		}
	}
	return out
}

func times(amount int64, factor float64) int64 {
	if factor <= 1 {
		return amount
	}
	if more := float64(amount) * factor; more < math.MaxInt64 {
		return int64(more)
	}
	return math.MaxInt64
}

// String describes the shortage for users.
func (s *Shortage) String() string {
	free := max(0, s.Free)
	has, wants := amounts.Texts(s.Resource, free, s.Asked)
	text := fmt.Sprintf(Named+"%s %s, and %s free", wants, amounts.Name(s.Resource, s.Asked), are(has))
	if s.Overcommit > 1 {
		text += fmt.Sprintf(" with overcommitFactor %v", s.Overcommit)
	}
	if s.Freed > 0 {
		text += ", " + amounts.Text(s.Resource, s.Freed) + " could be freed by pods that are ending or of lower priority"
	}
	if s.Spared > 0 {
		text += ", " + are(amounts.Text(s.Resource, s.Spared)) + " used by pods of lower priority, but this scheduler or the group evicts no pods"
	}
	if s.Kept > 0 {
		text += ", " + are(amounts.Text(s.Resource, s.Kept)) + " kept for groups that were admitted before"
	}
	return text
}

func are(amount string) string {
	if amount == "1" {
		return amount + " is"
	}
	return amount + " are"
}
