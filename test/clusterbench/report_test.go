package main

import "testing"

func TestWayByTheFirst(t *testing.T) {
	first, second := &way{PerWrite: []float64{10, 30, 20}}, &way{PerWrite: []float64{5, 60, 20}}
	if got := second.byFirst(first); got != 1 {
		t.Errorf("%v, want 1: the median of 0.5, 2 and 1", got)
	}
}
