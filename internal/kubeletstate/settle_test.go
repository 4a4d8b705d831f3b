package kubeletstate

import (
	"errors"
	"testing"
)

// TestSettle plays several looks, one after the other; 0 is a valid state, -1 an error.
func TestSettle(t *testing.T) {
	broken := errors.New("gone")
	for _, tc := range []struct {
		name   string
		finds  []int
		looks  int
		want   int
		broken bool
	}{
		{"sound at once", []int{0, 7}, 1, 0, false},
		{"a change under way", []int{7, 8, 0}, 3, 0, false},
		{"the same three times", []int{7, 7, 7, 0}, 3, 7, false},
		{"the same again later", []int{7, 8, 7, 7, 7, 0}, 5, 7, false},
		{"an error", []int{7, -1, 0}, 2, -1, true},
		{"never the same", []int{1, 2}, maxLooks, 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			looks, pauses := 0, 0
			got, err := Settle(func() (int, bool, error) {
				found := tc.finds[looks%len(tc.finds)]
				if looks++; found < 0 {
					return found, false, broken
				}
				return found, found == 0, nil
			}, func(a, b int) bool { return a == b }, func() { pauses++ })
			if got != tc.want || looks != tc.looks || pauses != looks-1 || errors.Is(err, broken) != tc.broken {
				t.Errorf("found %d in %d looks with %d pauses, error %v; want %d in %d", got, looks, pauses, err, tc.want, tc.looks)
			}
		})
	}
}
