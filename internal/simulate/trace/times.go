package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"time"
)

// Times configures when pods arrive and how long they run.
type Times struct {
	// For is the time during which pods arrive; 0 means until the last pod of the list has ended.
	For time.Duration
	// Draw, if not nil, fills in the Arrivals up to To, with the draw's Rand. It may change From
	// and To. If Draw is nil, the pods of the list arrive at their own times, and run for their own
	// times.
	Draw func(*TimedDraw) error
}

// Arrival is the arrival of the pods of a row of the list.
type Arrival struct {
	Pod      int32 // index into the list
	At, Life int64 // the second of arrival, and the running time in seconds
}

// TimedDraw is the random part of one run with lifetimes.
type TimedDraw struct {
	// Arrivals are in the order of time.
	Arrivals []Arrival
	// From and To are the seconds between which pods and amounts are counted. The run ends at To.
	From, To int64
	// Order and Rand are as in the type Draw.
	Order []int32
	Rand  *rand.Rand
}

// Life returns how long the pod ran, in seconds, if the list has its times.
func (p *Pod) Life() int64 { return max(1, p.Deleted-max(p.Created, p.Scheduled)) }

// Count returns the number of pods of a row: the members of a gang, or one.
func (p *Pod) Count() int { return max(1, p.Members) }

// NewTimedDraw draws arrivals. It returns an error if a pod needs times and has none, if too many
// pods arrive, or if their requests are too large to be added up.
func NewTimedDraw(nodes []Node, pods []Pod, o Times, seed int64) (*TimedDraw, error) {
	d := &TimedDraw{Rand: rand.New(rand.NewSource(seed)), To: int64(o.For / time.Second)}
	var err error
	if o.Draw != nil {
		err = o.Draw(d)
	} else {
		err = d.own(pods)
	}
	if err == nil {
		err = d.check(pods)
	}
	d.Order = make([]int32, len(nodes))
	for i, node := range d.Rand.Perm(len(nodes)) {
		d.Order[i] = int32(node)
	}
	return d, err
}

// own makes each pod arrive at its creation time, and run for the time that the list has for it.
// The first pod arrives at second 0.
func (d *TimedDraw) own(pods []Pod) error {
	first, last := int64(math.MaxInt64), int64(0)
	for i := range pods {
		if p := &pods[i]; !p.Timed {
			return fmt.Errorf("pod %.60q: its creation time or its deletion time is missing: want both for every pod", p.Name)
		}
		first, last = min(first, pods[i].Created), max(last, pods[i].Created+pods[i].Life())
	}
	d.To = cmp.Or(d.To, last-first)
	for i := range pods {
		if at := pods[i].Created - first; at < d.To {
			d.Arrivals = append(d.Arrivals, Arrival{int32(i), at, pods[i].Life()})
		}
	}
	slices.SortStableFunc(d.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return nil
}

// maxHours limits the sum of all requests, in thousandths times seconds, so that no sum overflows.
const maxHours = 1 << 60

// check returns an error if there are too many arrivals, or if their sums could overflow.
func (d *TimedDraw) check(pods []Pod) error {
	sum, count := 0.0, 0
	for _, a := range d.Arrivals {
		p := &pods[a.Pod]
		count += p.Count()
		sum += float64(a.Life) * float64(p.Count()) * float64(max(p.MilliCPU, p.AskedGPU()))
	}
	switch {
	case count > MaxPods:
		return fmt.Errorf("%d pods arrive (each member of a gang counts): want at most %d", count, MaxPods)
	case sum > maxHours:
		return fmt.Errorf("the pods ask for %.3g CPU or GPU hours: want at most %.3g", sum/3600/Thousandths, float64(maxHours)/3600/Thousandths)
	}
	return nil
}
