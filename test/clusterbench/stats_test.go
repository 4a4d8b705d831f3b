package main

import (
	"math"
	"testing"
)

func TestLowerBound(t *testing.T) {
	for _, tt := range []struct {
		values      []float64
		bound, sure float64
	}{
		{[]float64{3, 1, 2}, 1, 0.875},
		{[]float64{5, 4, 3, 2, 1}, 1, 1 - 1.0/32},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1}, 2, 1 - 9.0/256},
		{[]float64{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 3, 1 - (1+11+55)/2048.0},
	} {
		bound, sure := lowerBound(tt.values)
		if bound != tt.bound || math.Abs(sure-tt.sure) > 1e-12 {
			t.Errorf("lowerBound(%v) = %v with %v, want %v with %v", tt.values, bound, sure, tt.bound, tt.sure)
		}
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
		t.Error("the median of nothing is a number")
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
}
