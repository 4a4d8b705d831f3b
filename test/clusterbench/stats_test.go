package main

import (
	"math"
	"testing"
)

// TestEstimate: bounds against tables of the signed-rank test (one-sided, 5 percent: critical
// values 0, 2, 3, 5, 8, 10 for 5 to 10 pairs).
func TestEstimate(t *testing.T) {
	for n, critical := range map[int]int{5: 0, 6: 2, 7: 3, 8: 5, 9: 8, 10: 10} {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(math.Pow(3, float64(i))) // no two means are equal
		}
		e := estimateOf(values)
		smaller := 0
		for i, v := range values {
			for _, o := range values[:i+1] {
				if math.Sqrt(v*o) < e.Bound*(1-1e-9) {
					smaller++
				}
			}
		}
		if smaller != critical || e.Sure < 0.95 {
			t.Errorf("%d pairs: %d means are below the bound, want %d; sure to %v", n, smaller, critical, e.Sure)
		}
	}
	few := estimateOf([]float64{3, 1, 2})
	if few.Bound != 1 || few.Sure != 0.875 || few.Median != 2 {
		t.Errorf("got %+v, want the smallest with 87.5 percent", few)
	}
	if e := estimateOf([]float64{0.5, 2, 1, 4, 0.25}); math.Abs(e.Centre-1) > 1e-12 || e.Bound != 0.25 {
		t.Errorf("got %+v, want 1 in the middle", e)
	}
	if e := estimateOf(nil); !math.IsNaN(e.Centre) || !math.IsNaN(e.Bound) || e.Sure != 0 {
		t.Errorf("got %+v of no values", e)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 1: 4, 0.99: 3.97} {
		if got := quantile(values, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of no values is a number")
	}
}

func TestMetricsSum(t *testing.T) {
	m := parseMetrics([]byte("# HELP x y\nx_sum{extension_point=\"Filter\",profile=\"a\"} 1.5\nx_sum{extension_point=\"Filter\",profile=\"b\"} 2\n" +
		"x_sum{extension_point=\"Score\"} 4\nx_sum_more{extension_point=\"Filter\"} 8\nplain 16\n"))
	if got := m.sum("x_sum", `extension_point="Filter"`); got != 3.5 {
		t.Errorf("sum with label = %v, want 3.5", got)
	}
	if got := m.sum("x_sum"); got != 7.5 {
		t.Errorf("sum = %v, want 7.5", got)
	}
	if got := m.sum("plain"); got != 16 {
		t.Errorf("plain = %v, want 16", got)
	}
	if got := m.by("x_sum", 2, "extension_point", "none"); len(got) != 2 || got["Filter"] != 1.75 || got["Score"] != 2 {
		t.Errorf("halves by point = %v, want 1.75 and 2", got)
	}
}
