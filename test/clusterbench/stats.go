package main

import (
	"math"
	"slices"
)

// median of values; NaN for none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile by linear interpolation between the order statistics; NaN for no values.
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

// confidence of lowerBound.
const confidence = 0.95

// lowerBound returns a one-sided lower confidence bound of the median, and its confidence, by rank alone: the k-th
// smallest value is above the median only if fewer than k of the values are below it, and that many are below it
// with a binomial probability, whatever the distribution. With fewer than 5 values no bound has 95 percent; the
// smallest value is returned with the confidence that it has.
func lowerBound(values []float64) (bound, sure float64) {
	n := len(values)
	if n == 0 {
		return math.NaN(), 0
	}
	s := slices.Sorted(slices.Values(values))
	bound, sure = s[0], 1-math.Pow(0.5, float64(n))
	below, term := 0.0, math.Pow(0.5, float64(n)) // of Binomial(n, 1/2)
	for k := range n {
		below += term
		term *= float64(n-k) / float64(k+1)
		if 1-below < confidence {
			break
		}
		bound, sure = s[k], 1-below
	}
	return bound, sure
}
