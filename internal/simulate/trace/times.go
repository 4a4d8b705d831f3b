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
	// Load is how much of the GPUs of all nodes the pods ask for at a time, on average; of the
	// CPUs, if none asks for GPUs. Pods are drawn from the list, and the time between two is
	// exponential. 0: each pod of the list comes and goes at its own times.
	Load float64
	// For is how long pods arrive. 0: until the last pod of the list is gone.
	For time.Duration
}

// The log-normal distribution of lifetimes, for pods without one in the list.
const (
	MedianLife = time.Hour
	lifeSpread = 1.0 // standard deviation of the logarithm
)

// warmUp is which part of a run with a Load passes before anything counts. No pod runs longer than
// that, so that the load is the one asked for from then on: what began empty is as it stays.
const warmUp = 4

// Arrival is a row of the list that comes at a time, and runs for a while. Both are seconds.
type Arrival struct {
	Pod      int32 // index into the list
	At, Life int64
}

// TimedDraw is the random part of one run with lifetimes.
type TimedDraw struct {
	// Arrivals are in the order of time.
	Arrivals []Arrival
	// From and To are the seconds between which things count.
	From, To int64
	// Order and Rand are as in a Draw.
	Order []int32
	Rand  *rand.Rand
}

// Life returns how long the pod ran, in seconds, if the list has its times.
func (p *Pod) Life() int64 { return max(1, p.Deleted-max(p.Created, p.Scheduled)) }

// Count returns how many pods a row of the list has: the members of a gang, or one.
func (p *Pod) Count() int { return max(1, p.Members) }

// NewTimedDraw draws arrivals. The error names a pod without times, or says that there are too
// many.
func NewTimedDraw(nodes []Node, pods []Pod, o Times, seed int64) (*TimedDraw, error) {
	d := &TimedDraw{Rand: rand.New(rand.NewSource(seed)), To: int64(o.For / time.Second)}
	var err error
	if o.Load > 0 {
		err = d.draw(nodes, pods, o.Load)
	} else {
		err = d.own(pods)
	}
	d.Order = make([]int32, len(nodes))
	for i, node := range d.Rand.Perm(len(nodes)) {
		d.Order[i] = int32(node)
	}
	return d, err
}

// own lets the pods come and go at their own times. The first comes at second 0.
func (d *TimedDraw) own(pods []Pod) error {
	first, last := int64(math.MaxInt64), int64(0)
	for i := range pods {
		if p := &pods[i]; !p.Timed {
			return fmt.Errorf("pod %.60q: it has no times: want them for all pods, or a load", p.Name)
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
	return d.check(pods)
}

// draw draws pods of the list until the time is over.
func (d *TimedDraw) draw(nodes []Node, pods []Pod, load float64) error {
	d.From = d.To / warmUp
	gpus, asked := AskGPUs(pods), 0.0
	timed := slices.IndexFunc(pods, func(p Pod) bool { return !p.Timed }) < 0
	for i := range pods {
		p := &pods[i]
		life := meanLife(d.From)
		if timed {
			life = float64(min(p.Life(), d.From))
		}
		asked += life * float64(p.Count()) * float64(p.amount(gpus)) / float64(len(pods))
	}
	if asked == 0 {
		return fmt.Errorf("the pods ask for nothing: want some that ask for CPUs or GPUs")
	}
	rate := load * float64(CapacityOf(nodes, gpus)) / asked
	if float64(d.To)*rate > MaxPods {
		return fmt.Errorf("%.0f pods would arrive: want at most %d: fewer hours, or fewer nodes", float64(d.To)*rate, MaxPods)
	}
	for at := d.Rand.ExpFloat64() / rate; int64(at) < d.To && len(d.Arrivals) < MaxPods; at += d.Rand.ExpFloat64() / rate {
		i := int32(d.Rand.Intn(len(pods)))
		life := drawLife(d.Rand, d.From)
		if timed {
			life = min(pods[i].Life(), d.From)
		}
		d.Arrivals = append(d.Arrivals, Arrival{i, int64(at), life})
	}
	return d.check(pods)
}

// maxHours bounds what is asked for in all, in thousandths and seconds, so that no sum overflows.
const maxHours = 1 << 60

// check refuses arrivals that cannot be counted.
func (d *TimedDraw) check(pods []Pod) error {
	sum, count := 0.0, 0
	for _, a := range d.Arrivals {
		p := &pods[a.Pod]
		count += p.Count()
		sum += float64(a.Life) * float64(p.Count()) * float64(max(p.MilliCPU, p.AskedGPU()))
	}
	switch {
	case count > MaxPods:
		return fmt.Errorf("%d pods arrive, members of gangs counted: want at most %d", count, MaxPods)
	case sum > maxHours:
		return fmt.Errorf("the pods ask for %.3g CPU hours: want at most %.3g", sum/3600/Thousandths, float64(maxHours)/3600/Thousandths)
	}
	return nil
}

// drawLife draws how long a pod runs, in seconds.
func drawLife(r *rand.Rand, most int64) int64 {
	return min(most, max(1, int64(MedianLife.Seconds()*math.Exp(lifeSpread*r.NormFloat64()))))
}

// meanLife is the mean of drawLife.
func meanLife(most int64) float64 {
	s, z := lifeSpread, math.Log(float64(most)/MedianLife.Seconds())/lifeSpread
	below := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	return MedianLife.Seconds()*math.Exp(s*s/2)*below(z-s) + float64(most)*(1-below(z))
}

// amount is how many thousandths of GPUs the pod asks for, or of CPUs.
func (p *Pod) amount(gpus bool) int64 {
	if gpus {
		return p.AskedGPU()
	}
	return p.MilliCPU
}
