package lab

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// Arrive returns a change for trace.NewDraw: pods arrive until they ask for the GPUs of all nodes
// times the ratio, or for the CPUs if no pod asks for GPUs. With ratio 0 it is nil.
//
// The pods of the list come first, in random order. If they ask for too much, Arrive removes random
// pods. If they ask for too little, it draws more pods from the list, until the next pod would
// exceed the ratio. As in the FGD paper, this check counts only one GPU of the next pod.
func Arrive(nodes []trace.Node, pods []trace.Pod, ratio float64) func(*trace.Draw) {
	if !(ratio > 0) || len(pods) == 0 {
		return nil
	}
	gpus := trace.AskGPUs(pods)
	target := ratio * float64(trace.CapacityOf(nodes, gpus))
	return func(d *trace.Draw) {
		asked, byName := int64(0), trace.ByName(pods)
		one := func(i int32) int64 { return amount(&pods[i], gpus) }
		for i := range pods {
			asked += one(int32(i))
		}
		if asked == 0 || float64(asked) >= target {
			for float64(asked) > target {
				at := d.Rand.Intn(len(d.Arrivals))
				asked -= one(d.Arrivals[at])
				d.Arrivals = slices.Delete(d.Arrivals, at, at+1)
			}
			return
		}
		for len(d.Arrivals) < trace.MaxPods {
			next := byName[d.Rand.Intn(len(byName))]
			if gpus && float64(asked+pods[next].MilliGPU) > target || !gpus && float64(asked+one(next)) > target {
				return
			}
			asked += one(next)
			d.Arrivals = append(d.Arrivals, next)
		}
	}
}

// The log-normal distribution of lifetimes, for pods without one in the list.
const (
	medianLife = time.Hour
	lifeSpread = 1.0 // standard deviation of the logarithm
)

// With a Load, the first 1/warmUp of a run does not count. No pod runs longer than that, so the
// load has reached its requested value then.
const warmUp = 4

// Load returns times at which pods arrive and end. On average, running pods ask for the fraction
// load of the GPUs of all nodes, or of the CPUs if no pod asks for GPUs. Pods are drawn from the
// list, at exponential intervals.
func Load(nodes []trace.Node, pods []trace.Pod, load float64, span time.Duration) *trace.Times {
	return &trace.Times{For: span, Draw: func(d *trace.TimedDraw) error {
		d.From = d.To / warmUp
		gpus, asked := trace.AskGPUs(pods), 0.0
		timed := slices.IndexFunc(pods, func(p trace.Pod) bool { return !p.Timed }) < 0
		for i := range pods {
			p := &pods[i]
			life := meanLife(d.From)
			if timed {
				life = float64(min(p.Life(), d.From))
			}
			asked += life * float64(p.Count()) * float64(amount(p, gpus)) / float64(len(pods))
		}
		if asked == 0 {
			return errors.New("the pods ask for nothing: want some that ask for CPUs or GPUs")
		}
		rate := load * float64(trace.CapacityOf(nodes, gpus)) / asked
		if float64(d.To)*rate > trace.MaxPods {
			return fmt.Errorf("%.0f pods would arrive: want at most %d: fewer hours, or fewer nodes", float64(d.To)*rate, trace.MaxPods)
		}
		for at := d.Rand.ExpFloat64() / rate; int64(at) < d.To && len(d.Arrivals) < trace.MaxPods; at += d.Rand.ExpFloat64() / rate {
			i := int32(d.Rand.Intn(len(pods)))
			life := drawLife(d.Rand, d.From)
			if timed {
				life = min(pods[i].Life(), d.From)
			}
			d.Arrivals = append(d.Arrivals, trace.Arrival{Pod: i, At: int64(at), Life: life})
		}
		return nil
	}}
}

// drawLife draws how long a pod runs, in seconds.
func drawLife(r *rand.Rand, most int64) int64 {
	return min(most, max(1, int64(medianLife.Seconds()*math.Exp(lifeSpread*r.NormFloat64()))))
}

// meanLife is the mean of drawLife.
func meanLife(most int64) float64 {
	s, z := lifeSpread, math.Log(float64(most)/medianLife.Seconds())/lifeSpread
	below := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	return medianLife.Seconds()*math.Exp(s*s/2)*below(z-s) + float64(most)*(1-below(z))
}

// amount returns the pod's request in thousandths of GPUs, or of CPUs.
func amount(p *trace.Pod, gpus bool) int64 {
	if gpus {
		return p.AskedGPU()
	}
	return p.MilliCPU
}
