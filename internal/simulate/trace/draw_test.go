package trace

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDraw: every pod arrives once. Different seeds give different orders, and the same seed the
// same order.
func TestDraw(t *testing.T) {
	nodes, pods := []Node{{"b", 1, 1, 8, ""}, {"a", 1, 1, 8, ""}, {"c", 1, 1, 4, ""}}, []Pod{}
	for i := range 10 {
		pods = append(pods, Pod{Name: strconv.Itoa(i)})
	}
	d, again, other := NewDraw(nodes, pods, 7, nil), NewDraw(nodes, pods, 7, nil), NewDraw(nodes, pods, 8, nil)
	if !slices.Equal(d.Arrivals, again.Arrivals) || !slices.Equal(d.Order, again.Order) {
		t.Error("two draws with the same seed differ")
	}
	if slices.Equal(d.Arrivals, other.Arrivals) {
		t.Error("draws with different seeds have the same arrivals")
	}
	if all := slices.Sorted(slices.Values(d.Arrivals)); len(all) != len(pods) || len(slices.Compact(all)) != len(pods) {
		t.Errorf("%v arrive", d.Arrivals)
	}
	if order := slices.Sorted(slices.Values(d.Order)); !slices.Equal(order, []int32{0, 1, 2}) {
		t.Errorf("order %v", d.Order)
	}
	if one := NewDraw(nodes, pods, 7, func(d *Draw) { d.Arrivals = d.Arrivals[:1] }); len(one.Arrivals) != 1 {
		t.Errorf("%v arrive, want the one arrival that the function keeps", one.Arrivals)
	}
}

// TestTimedDraw: pods come and go at their own times, or at drawn times. Invalid numbers are
// refused.
func TestTimedDraw(t *testing.T) {
	nodes, pods := []Node{{"a", 64000, 1, 8, ""}, {"b", 64000, 1, 8, ""}}, []Pod{}
	for i := range 10 {
		pods = append(pods, Pod{Name: strconv.Itoa(i), GPUs: 1 + i%2, MilliGPU: 1000, Members: i % 3, Timed: true, Scheduled: int64(i), Deleted: 100 + int64(i)*3000})
	}
	own, err := NewTimedDraw(nodes, pods, Times{}, 5)
	if err != nil || len(own.Arrivals) != len(pods) || own.From != 0 || own.To != 27091 || own.Arrivals[2] != (Arrival{2, 0, 6098}) {
		t.Errorf("%+v, %v", own, err)
	}
	some := func(count int, life int64) func(*TimedDraw) error {
		return func(d *TimedDraw) error {
			d.Arrivals = slices.Repeat([]Arrival{{At: d.To - 1, Life: life}}, count)
			return nil
		}
	}
	drawn, err := NewTimedDraw(nodes, pods, Times{For: time.Hour, Draw: some(3, 60)}, 5)
	if err != nil || drawn.To != 3600 || len(drawn.Arrivals) != 3 || !slices.Equal(drawn.Order, own.Order) {
		t.Errorf("%+v, %v", drawn, err)
	}
	for _, c := range []struct {
		pods []Pod
		o    Times
		want string
	}{
		{pods, Times{For: time.Hour, Draw: some(MaxPods+1, 60)}, "pods arrive (each member of a gang counts): want at most 500000"},
		{append(slices.Clone(pods), Pod{Name: "x"}), Times{}, `pod "x": its creation time or its deletion time is missing`},
		{[]Pod{{Name: "x", MilliCPU: 1 << 40, Timed: true, Deleted: 1 << 30}}, Times{}, "CPU or GPU hours: want at most"},
	} {
		if _, err := NewTimedDraw(nodes, c.pods, c.o, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
