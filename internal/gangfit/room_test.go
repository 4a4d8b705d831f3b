package gangfit

import (
	"math"
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
)

func cpus(n int64) amounts.List { return amounts.List{amounts.CPU: n * 1000} }

// TestWhatAGroupIsLetInFor: free amounts and those that could be freed, without those that are kept
// for other groups.
func TestWhatAGroupIsLetInFor(t *testing.T) {
	const gang, other = "a/g", "a/h"
	for name, c := range map[string]struct {
		has   int64
		there []Occupant
		claim Claim
		want  string
	}{
		"it is free":             {8, nil, Claim{Asked: cpus(8)}, ""},
		"it is not":              {7, nil, Claim{Asked: cpus(8)}, "minResources asks for 8 CPUs, and 7 are free"},
		"one is":                 {1, nil, Claim{Asked: cpus(8)}, "minResources asks for 8 CPUs, and 1 is free"},
		"lower ones have it":     {8, []Occupant{{Asks: cpus(8), Priority: 1}}, Claim{Asked: cpus(8), Priority: 2}, ""},
		"equal ones have it":     {8, []Occupant{{Asks: cpus(8), Priority: 2}}, Claim{Asked: cpus(8), Priority: 2}, "minResources asks for 8 CPUs, and 0 are free"},
		"lower ones have less":   {8, []Occupant{{Asks: cpus(3), Priority: 1}, {Asks: cpus(4), Priority: 2}}, Claim{Asked: cpus(8), Priority: 2}, "minResources asks for 8 CPUs, and 1 is free, 3 could be freed by pods that are ending or of lower priority"},
		"nobody is evicted":      {8, []Occupant{{Asks: cpus(8), Priority: 1}}, Claim{Asked: cpus(8), Priority: 2, EvictsNobody: true}, "minResources asks for 8 CPUs, and 0 are free, 8 are used by pods of lower priority, but this scheduler or the group evicts no pods"},
		"they are leaving":       {8, []Occupant{{Asks: cpus(8), Priority: 3, Leaving: true}}, Claim{Asked: cpus(8), Priority: 2, EvictsNobody: true}, ""},
		"they stay":              {8, []Occupant{{Asks: cpus(8), Priority: 1, Stays: true}}, Claim{Asked: cpus(8), Priority: 2}, "minResources asks for 8 CPUs, and 0 are free"},
		"not for critical pods":  {8, []Occupant{{Asks: cpus(4), Priority: 1, Stays: true}, {Asks: cpus(4), Gang: gang, Stays: true}}, Claim{Asked: cpus(8), Priority: SystemCritical}, ""},
		"a gang by its lowest":   {8, []Occupant{{Asks: cpus(4), Priority: 1, Gang: gang}, {Asks: cpus(4), Priority: 9, Gang: gang}}, Claim{Asked: cpus(8), Priority: 2}, ""},
		"a gang stays whole":     {8, []Occupant{{Asks: cpus(4), Priority: 1, Gang: gang}, {Asks: cpus(4), Priority: 1, Gang: gang, Stays: true}}, Claim{Asked: cpus(8), Priority: 2}, "minResources asks for 8 CPUs, and 0 are free"},
		"two gangs":              {8, []Occupant{{Asks: cpus(4), Priority: 1, Gang: gang}, {Asks: cpus(4), Priority: 9, Gang: other}}, Claim{Asked: cpus(8), Priority: 2}, "minResources asks for 8 CPUs, and 0 are free, 4 could be freed by pods that are ending or of lower priority"},
		"it is kept for others":  {8, nil, Claim{Asked: cpus(8), Kept: cpus(3)}, "minResources asks for 8 CPUs, and 8 are free, 3 are kept for groups that were admitted before"},
		"a part is kept":         {8, nil, Claim{Asked: cpus(5), Kept: cpus(3)}, ""},
		"more is given away":     {10, []Occupant{{Asks: cpus(9)}}, Claim{Asked: cpus(3), Overcommit: 1.2}, ""},
		"not even so":            {10, []Occupant{{Asks: cpus(9)}}, Claim{Asked: cpus(4), Overcommit: 1.2}, "minResources asks for 4 CPUs, and 3 are free with overcommitFactor 1.2"},
		"nodes have too much":    {8, []Occupant{{Asks: cpus(9), Priority: 1}, {Asks: cpus(1), Priority: 5}}, Claim{Asked: cpus(8), Priority: 2}, "minResources asks for 8 CPUs, and 0 are free, 9 could be freed by pods that are ending or of lower priority"},
		"nothing is asked for":   {0, []Occupant{{Asks: cpus(1)}}, Claim{Asked: amounts.List{amounts.CPU: 0}}, ""},
		"places for pods":        {8, []Occupant{{Asks: cpus(1), Priority: 5}}, Claim{Asked: amounts.List{amounts.Pods: 2}}, "minResources asks for 2 pods, and 1 is free"},
		"what no node can count": {math.MaxInt64 / 1000, nil, Claim{Asked: amounts.List{"a.b/c": math.MaxInt64}, Kept: amounts.List{"a.b/c": math.MaxInt64}}, "minResources asks for 9223372036854775807 a.b/c, and 0 are free, 9223372036854775807 are kept for groups that were admitted before"},
	} {
		t.Run(name, func(t *testing.T) {
			var r Room
			has := cpus(c.has)
			has[amounts.Pods] = 2
			r.Offer(has)
			for i := range c.there {
				r.Take(&c.there[i])
			}
			got := ""
			if s := r.Short(&c.claim); s != nil {
				got = s.String()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
