package lab

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// TestArrive: pods arrive up to the ratio, and equal seeds, and only those, draw equal pods.
func TestArrive(t *testing.T) {
	nodes, pods := []trace.Node{{Name: "b", GPUs: 8}, {Name: "a", GPUs: 8}, {Name: "c", GPUs: 4}}, []trace.Pod{}
	for i := range 10 {
		pods = append(pods, trace.Pod{Name: strconv.Itoa(i), GPUs: 1, MilliGPU: 100 * int64(1+i)})
	}
	for _, ratio := range []float64{0, 0.1, 0.5, 1, 1.3} {
		draw := func(seed int64) *trace.Draw { return trace.NewDraw(nodes, pods, seed, Arrive(nodes, pods, ratio)) }
		d, asked := draw(7), int64(0)
		for _, i := range d.Arrivals {
			asked += pods[i].AskedGPU()
		}
		if !slices.Equal(d.Arrivals, draw(7).Arrivals) || slices.Equal(d.Arrivals, draw(8).Arrivals) {
			t.Errorf("ratio %v: want equal draws for equal seeds, and only for these", ratio)
		}
		if ratio == 0 && len(d.Arrivals) != len(pods) || ratio > 0 && (float64(asked) > ratio*20000 || float64(asked) < ratio*20000-1000) {
			t.Errorf("ratio %v: %d pods ask for %d", ratio, len(d.Arrivals), asked)
		}
	}
	if d := trace.NewDraw(nil, nil, 1, Arrive(nil, nil, 1.3)); len(d.Arrivals) != 0 {
		t.Errorf("%v arrive from an empty list", d.Arrivals)
	}
}

// TestLoad: the average requests of running pods are near the load, events are in the order of
// time, and no pod runs longer than the warm-up.
func TestLoad(t *testing.T) {
	nodes, pods := []trace.Node{{Name: "a", MilliCPU: 64000, GPUs: 8}, {Name: "b", MilliCPU: 64000, GPUs: 8}}, []trace.Pod{}
	for i := range 10 {
		pods = append(pods, trace.Pod{Name: strconv.Itoa(i), GPUs: 1 + i%2, MilliGPU: 1000, Members: i % 3})
	}
	for _, timed := range []bool{false, true} {
		for i := range pods {
			pods[i].Timed, pods[i].Scheduled, pods[i].Deleted = timed, int64(i), 100+int64(i)*3000
		}
		draw := func(seed int64) *trace.TimedDraw {
			d, err := trace.NewTimedDraw(nodes, pods, *Load(nodes, pods, 0.8, 4000*time.Hour), seed)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := draw(5)
		sum, last := 0.0, int64(0)
		for _, a := range d.Arrivals {
			p := &pods[a.Pod]
			sum += float64(a.Life) * float64(p.Count()) * float64(p.AskedGPU())
			if a.At < last || a.At >= d.To || a.Life < 1 || a.Life > d.From || timed && a.Life != p.Life() {
				t.Fatalf("%+v after %d, until %d", a, last, d.To)
			}
			last = a.At
		}
		if load := sum / float64(d.To) / 16000; load < 0.78 || load > 0.82 {
			t.Errorf("times of the list %t: the load is %v, want 0.8", timed, load)
		}
		if again := draw(5); !slices.Equal(d.Arrivals, again.Arrivals) || slices.Equal(d.Arrivals, draw(6).Arrivals) || !slices.Equal(d.Order, again.Order) {
			t.Error("want equal draws for equal seeds, and only for these")
		}
	}
	for _, c := range []struct {
		pods  []trace.Pod
		times *trace.Times
		want  string
	}{
		{pods, Load(nodes, pods, 10, 24*365*time.Hour*10), "pods would arrive: want at most 500000"},
		{[]trace.Pod{{Name: "x"}}, Load(nodes, []trace.Pod{{Name: "x"}}, 1, time.Hour), "ask for nothing"},
	} {
		if _, err := trace.NewTimedDraw(nodes, c.pods, *c.times, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
