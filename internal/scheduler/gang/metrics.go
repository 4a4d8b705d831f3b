package gang

import (
	"k8s.io/component-base/metrics"
)

// These are the values of the label reason of gang_plans_dropped_total: why a plan was not made or
// was dropped.
const (
	failedCapacity = "capacity"
	failedInput    = "input"
	failedChanged  = "changed"
	failedMember   = "member"
	failedBudget   = "budget"
)

const (
	namespace = "berth"
	subsystem = "scheduler"
)

func counter(name, help string) *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help})
}

var (
	planDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "gang_plan_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long it took to find nodes for all members of a gang, or to find that there are none.",
		Buckets: metrics.ExponentialBuckets(0.0005, 2, 14),
	})
	plansMade    = counter("gang_plans_total", "Gangs that were planned and reserved whole.")
	plansDropped = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "gang_plans_dropped_total", StabilityLevel: metrics.ALPHA,
		Help: "Failed attempts to plan a gang, and plans that were dropped, by reason: capacity (the gang does not fit), input (a pod is not valid), changed (a node changed during the attempt), member (a member failed or left, or the deadline passed), budget (too expensive to plan).",
	}, []string{"reason"})
	victimsEvicted  = counter("gang_victims_total", "Pods that were evicted so that a whole gang fits.")
	victimQuestions = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "gang_victim_questions", StabilityLevel: metrics.ALPHA,
		Help:    "How often one search for pods to evict asked whether a node admits a member.",
		Buckets: metrics.ExponentialBuckets(16, 4, 7),
	})
	searchesCut  = counter("gang_victim_searches_cut_total", "Searches for pods to evict that were stopped because they had used up their budget.")
	groupsFailed = counter("gangs_failed_total", "Gangs whose bound members were deleted, because the others got no nodes before the deadline.")
)

// Metrics returns the metrics of the package. Register them once.
func Metrics() []metrics.Registerable {
	for _, reason := range []string{failedCapacity, failedInput, failedChanged, failedMember, failedBudget} {
		plansDropped.WithLabelValues(reason)
	}
	return []metrics.Registerable{planDuration, plansMade, plansDropped, groupsFailed, victimsEvicted, victimQuestions, searchesCut}
}
