package scheduler

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/placement"
)

const (
	namespace = "berth"
	subsystem = "scheduler"
)

// counterVec is a counter of its own for each value of the labels.
func counterVec(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help}, labels)
}

var (
	verdicts = counterVec("verdicts_total",
		"Decisions of Reserve and Bind by outcome and by the reason for which the kubelet would refuse, or a pod waits.", "extension_point", "outcome", "reason")
	bindings = counterVec("bindings_total",
		"Bindings by how writing them went: written, failed, or in doubt.", "result")
	devicePods = counterVec("device_pods_total",
		"Pods with devices that were bound, by whether these lie below one PCI switch, at one root complex, with all else that the pod has on one NUMA node, in one package, or across the machine, as decided or predicted.", "alignment")
	promises = counterVec("promises_total",
		"Decisions by what the node's report said about them: kept, contended (another pod came between), mispredicted, refused. The last two must stay 0.", "outcome")
	reportsRefused = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "reports_refused_total", StabilityLevel: metrics.ALPHA,
		Help: "NodeTopologies that contradicted themselves, or could not be understood.",
	})
	searches = counterVec("searches_total",
		"Searches for the best node among the nodes that Berth named to the other plugins, by how they ended: once (in the first few), further (in the next ones: other plugins refused all before), all (all nodes were looked at, as they refused all that was named), nowhere (no node took the pod, so that none was named).", "result")
	delays = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "pod_delay_seconds", StabilityLevel: metrics.ALPHA, Buckets: metrics.ExponentialBuckets(0.001, 4, 9),
		Help: "What pods that could be pinned spent their time on from the scheduling queue until their Binding was written, one observation a pod and cause: queue (others came first), attempt (being tried), report (a node had to report first), mates (of a gang), room (no node took it), backoff (something else failed), binding (from the choice of a node on).",
	}, []string{"cause"})
	podsRefused = counterVec("pod_inputs_refused_total",
		"What pods say and Berth could not understand, at each look: request (refused), policy (refused), placement (ignored).", "input")
)

// How the writing of a Binding came out: the values of the label result.
const (
	bindingWritten = "written"
	bindingFailed  = "failed"
	bindingDoubt   = "doubt"
)

// How a search for the best node ended: the values of the label result.
const (
	SearchedOnce    = "once"
	SearchedFurther = "further"
	SearchedAll     = "all"
	SearchedNowhere = "nowhere"
)

// Searched counts a search by how it ended.
func Searched(result string) { searches.WithLabelValues(result).Inc() }

var registerOnce sync.Once

// register makes the metrics known to the registry of the process.
func register() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(verdicts, bindings, devicePods, promises, reportsRefused, searches, delays, podsRefused)
		legacyregistry.MustRegister(gang.Metrics()...)
		legacyregistry.CustomMustRegister(&nodeGauges)
		legacyregistry.RawMustRegister(version.Info())
		for _, r := range nodes.PromiseResults {
			promises.WithLabelValues(string(r))
		}
		for _, result := range []string{bindingWritten, bindingFailed, bindingDoubt} {
			// An alert on the increase does not see a series that begins at 1.
			bindings.WithLabelValues(result)
		}
		for _, result := range []string{SearchedOnce, SearchedFurther, SearchedAll, SearchedNowhere} {
			searches.WithLabelValues(result)
		}
		for _, near := range placement.Nearnesses {
			devicePods.WithLabelValues(string(near))
		}
	})
}

// feedMetrics counts what the feed comes upon.
type feedMetrics struct{}

var _ nodes.Metrics = feedMetrics{}

// PromiseSettled implements nodes.Metrics.
func (feedMetrics) PromiseSettled(r nodes.PromiseResult) { promises.WithLabelValues(string(r)).Inc() }

// ReportRefused implements nodes.Metrics.
func (feedMetrics) ReportRefused() { reportsRefused.Inc() }

// PlacementIgnored implements nodes.Metrics.
func (feedMetrics) PlacementIgnored() { podsRefused.WithLabelValues("placement").Inc() }
