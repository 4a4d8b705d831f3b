package rank

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestVolcanoScore has the numbers of the formula score = weight * (100 - 100 * n / max) from
// Volcano's documents, and results of its code for other numbers.
func TestVolcanoScore(t *testing.T) {
	for _, c := range []struct {
		weight      int64
		spans, want []int64
	}{
		{10, []int64{1, 2, 4}, []int64{750, 500, 0}},
		{1, []int64{1, 2, 4}, []int64{75, 50, 0}},
		{1, []int64{1, 3}, []int64{67, 0}},
		{1, []int64{2, 2}, []int64{0, 0}},
		{1, []int64{1}, []int64{0}},
		{10, []int64{1, 2}, []int64{500, 0}},
		{1, []int64{0, 2}, []int64{0, 0}}, // no pod is spread: not the best score, as in Volcano's code
		{1, nil, nil},
	} {
		var got []int64
		for _, n := range c.spans {
			got = append(got, c.weight*VolcanoScore(n, slices.Max(c.spans)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("weight %d, NUMA nodes %v: %v, want %v", c.weight, c.spans, got, c.want)
		}
	}
	if VolcanoScore(1, 0) != 0 || VolcanoScore(9, 3) != 0 || VolcanoScore(-1, 3) != 0 {
		t.Error("numbers that cannot be are scored")
	}
}

func TestFormulaIsRead(t *testing.T) {
	for text, want := range map[string]Scoring{
		`"volcano"`:                           {Formula: Volcano},
		`{"formula": "volcano"}`:              {Formula: Volcano},
		`{"fit": 3}`:                          {Fit: 3},
		` {"strategy": "LeastAllocated"} `:    {Strategy: LeastAllocated},
		`{"first": ["devices", "numaNodes"]}`: {First: []Criterion{Devices, NUMANodes}},
	} {
		var got Scoring
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		got.FillIn()
		want.FillIn()
		if !slices.Equal(got.First, want.First) || got.Formula != want.Formula || got.Fit != want.Fit || got.Strategy != want.Strategy {
			t.Errorf("%s: read %+v, want %+v", text, got, want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{"formla": "volcano"}`, `7`, `[]`, `{"formula": 1}`} {
		if err := json.Unmarshal([]byte(text), new(Scoring)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	wrong := Scoring{Formula: "koordinator"}
	if wrong.FillIn(); wrong.Validate() == nil {
		t.Error("an unknown formula was let through")
	}
}
