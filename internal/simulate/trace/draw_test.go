package trace

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDraw: pods arrive up to the ratio, each seed draws for itself, and the same seed the same.
func TestDraw(t *testing.T) {
	nodes, pods := []Node{{"b", 1, 1, 8, ""}, {"a", 1, 1, 8, ""}, {"c", 1, 1, 4, ""}}, []Pod{}
	for i := range 10 {
		pods = append(pods, Pod{Name: strconv.Itoa(i), GPUs: 1, MilliGPU: 100 * int64(1+i)})
	}
	asked := func(d *Draw) (sum int64) {
		for _, i := range d.Arrivals {
			sum += pods[i].AskedGPU()
		}
		return sum
	}
	for _, ratio := range []float64{0, 0.1, 0.5, 1, 1.3} {
		d, again, other := NewDraw(nodes, pods, ratio, 7), NewDraw(nodes, pods, ratio, 7), NewDraw(nodes, pods, ratio, 8)
		if !slices.Equal(d.Arrivals, again.Arrivals) || !slices.Equal(d.Order, again.Order) {
			t.Errorf("ratio %v: the same seed draws something else", ratio)
		}
		if slices.Equal(d.Arrivals, other.Arrivals) {
			t.Errorf("ratio %v: another seed draws the same", ratio)
		}
		if got := asked(d); ratio == 0 && len(d.Arrivals) != len(pods) || ratio > 0 && (float64(got) > ratio*20000 || float64(got) < ratio*20000-1000) {
			t.Errorf("ratio %v: %d pods ask for %d", ratio, len(d.Arrivals), got)
		}
		if order := slices.Sorted(slices.Values(d.Order)); !slices.Equal(order, []int32{0, 1, 2}) {
			t.Errorf("order %v", d.Order)
		}
	}
	if d := NewDraw(nil, nil, 1.3, 1); len(d.Arrivals) != 0 {
		t.Errorf("%v arrive from an empty list", d.Arrivals)
	}
}

// TestTimedDraw: what pods ask for at a time comes near the load, in the order of time, and no pod
// runs longer than what passes before anything counts.
func TestTimedDraw(t *testing.T) {
	nodes, pods := []Node{{"a", 64000, 1, 8, ""}, {"b", 64000, 1, 8, ""}}, []Pod{}
	for i := range 10 {
		pods = append(pods, Pod{Name: strconv.Itoa(i), GPUs: 1 + i%2, MilliGPU: 1000, Members: i % 3})
	}
	for _, timed := range []bool{false, true} {
		for i := range pods {
			pods[i].Timed, pods[i].Scheduled, pods[i].Deleted = timed, int64(i), 100+int64(i)*3000
		}
		o := Times{Load: 0.8, For: 4000 * time.Hour}
		d, err := NewTimedDraw(nodes, pods, o, 5)
		if err != nil {
			t.Fatal(err)
		}
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
		again, _ := NewTimedDraw(nodes, pods, o, 5)
		other, _ := NewTimedDraw(nodes, pods, o, 6)
		if !slices.Equal(d.Arrivals, again.Arrivals) || slices.Equal(d.Arrivals, other.Arrivals) || !slices.Equal(d.Order, again.Order) {
			t.Error("each seed draws for itself, and the same seed the same: it is not so")
		}
	}
	own, err := NewTimedDraw(nodes, pods, Times{}, 5)
	if err != nil || len(own.Arrivals) != len(pods) || own.From != 0 || own.To != 27091 || own.Arrivals[2] != (Arrival{2, 0, 6098}) {
		t.Errorf("%+v, %v", own, err)
	}
	for _, c := range []struct {
		pods []Pod
		o    Times
		want string
	}{
		{pods, Times{Load: 10, For: 24 * 365 * time.Hour * 10}, "pods would arrive: want at most 500000"},
		{append(slices.Clone(pods), Pod{Name: "x"}), Times{}, `pod "x": it has no times`},
		{[]Pod{{Name: "x"}}, Times{Load: 1, For: time.Hour}, "ask for nothing"},
		{[]Pod{{Name: "x", MilliCPU: 1 << 40, Timed: true, Deleted: 1 << 30}}, Times{}, "CPU hours: want at most"},
	} {
		if _, err := NewTimedDraw(nodes, c.pods, c.o, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
