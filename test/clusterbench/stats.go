package main

import (
	"math"
	"slices"
)

// median returns the median of values; NaN for none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile interpolates linearly between the order statistics. It returns NaN for no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (s[high]-s[low])*(at-float64(low))
}

// confidence is the required confidence of a lower bound.
const confidence = 0.95

// estimate is an estimate from the ratios of pairs.
type estimate struct {
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	// Centre is the Hodges-Lehmann estimate, Bound its one-sided lower bound with the confidence
	// Sure: see estimateOf.
	Centre float64 `json:"centre"`
	Bound  float64 `json:"bound"`
	Sure   float64 `json:"sure"`
}

// estimateOf uses ranks (Wilcoxon's signed-rank test). Take the means of all pairs of logarithms,
// including each with itself: their median is the estimate. The k-th smallest mean is above the
// centre with the probability of a rank sum below k, which rankSums computes exactly. The method
// assumes that a pair's ratio is as likely to be too large by some factor as too small by it. This
// holds if two runs differ only in the scheduler and their order changes from pair to pair. It
// assumes no distribution and no variance. With fewer than 5 values no bound has a confidence of 95
// percent; the result is then the smallest value with its confidence.
func estimateOf(values []float64) estimate {
	e := estimate{Values: values, Median: median(values), Centre: math.NaN(), Bound: math.NaN()}
	if len(values) == 0 {
		return e
	}
	var means []float64
	for i, v := range values {
		for _, o := range values[:i+1] {
			means = append(means, (math.Log(v)+math.Log(o))/2)
		}
	}
	slices.Sort(means)
	e.Centre = math.Exp(median(means))
	ways, all, below := rankSums(len(values)), math.Pow(2, float64(len(values))), 0.0
	for k := range means {
		below += ways[k] / all
		if k > 0 && 1-below < confidence {
			break
		}
		e.Bound, e.Sure = math.Exp(means[k]), 1-below
	}
	return e
}

// rankSums returns, for each sum, how many sets of the ranks 1 to n have it.
func rankSums(n int) []float64 {
	ways := make([]float64, n*(n+1)/2+1)
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := len(ways) - 1; sum >= rank; sum-- {
			ways[sum] += ways[sum-rank]
		}
	}
	return ways
}
