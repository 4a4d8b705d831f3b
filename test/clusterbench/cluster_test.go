package main

import (
	"fmt"
	"testing"
)

// TestTasks: each pair, and the cycles of each number of nodes, are measured once. If pairs have
// their own nodes, the first pairs of all sizes come before the second pairs.
func TestTasks(t *testing.T) {
	for _, tc := range []struct {
		fresh bool
		pairs []int
		want  string
	}{
		{false, []int{2, 1}, "[{0 0 false} {0 1 false} {0 0 true} {1 0 false} {1 0 true}]"},
		{true, []int{2, 1}, "[{0 0 false} {0 0 true} {1 0 false} {1 0 true} {0 1 false}]"},
		{true, []int{1, 2}, "[{0 0 false} {0 0 true} {1 0 false} {1 0 true} {1 1 false}]"},
		{true, []int{0}, "[{0 0 true} {1 0 true}]"},
		{false, []int{0}, "[{0 0 true} {1 0 true}]"},
	} {
		o := options{nodes: []int{500, 5000}, pairs: tc.pairs, fresh: tc.fresh}
		if got := fmt.Sprint(o.tasks()); got != tc.want {
			t.Errorf("fresh %t, pairs %v: %s, want %s", tc.fresh, tc.pairs, got, tc.want)
		}
	}
}
