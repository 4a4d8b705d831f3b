package scheduler

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/placement"
)

const (
	namespace = "berth"
	subsystem = "scheduler"
)

func counterVec(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, StabilityLevel: metrics.ALPHA, Help: help}, labels)
}

var (
	verdicts = counterVec("verdicts_total",
		"Decisions of Reserve and Bind, by outcome and reason. For a refusal, reason is the kubelet's; for a pod that waits, it is Berth's (docs/metrics.md).", "extension_point", "outcome", "reason")
	bindings = counterVec("bindings_total",
		"Bindings by result: written, failed, or doubt (the API server's answer is not known).", "result")
	devicePods = counterVec("device_pods_total",
		"Bound pods with devices, by the smallest unit that holds the devices, as decided or predicted: switch (one PCI switch), root (one root complex), numa-node, package, or machine. A pod whose devices, CPUs and memory are on several NUMA nodes counts as package or machine.", "alignment")
	claimPods = counterVec("claim_pods_total",
		"Bound pods that ask for devices of their ResourceClaims near their CPUs, by the requested alignment (near or required) and by the worst alignment of a device: aligned, neutral (it has no NUMA node), unpinned (the node pins nothing for the pod), unknown (no ResourceSlice lists it, or its driver names a NUMA node that the machine does not have), or misaligned.", "asks", "alignment")
	promises = counterVec("promises_total",
		"Decisions by what the node's report shows: kept; contended (another pod came between, or a pod was ending or deleted by force); mispredicted (other CPUs than an exact decision); refused. The last two must stay 0.", "outcome")
	reportsRefused = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "reports_refused_total", StabilityLevel: metrics.ALPHA,
		Help: "Node reports that Berth refused, for example because they contradict themselves or cannot be parsed.",
	})
	searches = counterVec("searches_total",
		"Searches for a node among Berth's candidates, by result: once (one of the first candidates passed), further (other plugins refused the first ones), all (other plugins refused every candidate that was tried, so all nodes were asked), nowhere (no node admits the pod, or each has to report first).", "result")
	delays = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "pod_delay_seconds", StabilityLevel: metrics.ALPHA, Buckets: metrics.ExponentialBuckets(0.001, 4, 9),
		Help: "How long each cause delayed the Binding of pods that could be pinned, one observation per pod and cause: queue (other pods came first), attempt (the pod was being tried), report (a node had to report first), mates (it waited for its gang), room (no node admitted the pod), backoff (something else failed), binding (from the choice of a node until the Binding was written).",
	}, []string{"cause"})
	podsRefused = counterVec("pod_inputs_refused_total",
		"Inputs of pods that Berth cannot parse, counted at each reading: request and policy (the pod is refused), placement (ignored).", "input")
)

// Results of writing a Binding: the values of the label result.
const (
	bindingWritten = "written"
	bindingFailed  = "failed"
	bindingDoubt   = "doubt"
)

// Results of a search among candidates: the values of the label result.
const (
	SearchedOnce    = "once"
	SearchedFurther = "further"
	SearchedAll     = "all"
	SearchedNowhere = "nowhere"
)

// Searched counts a search by its result.
func Searched(result string) { searches.WithLabelValues(result).Inc() }

var registerOnce sync.Once

func register() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(verdicts, bindings, devicePods, claimPods, promises, reportsRefused, searches, delays, podsRefused)
		legacyregistry.MustRegister(gang.Metrics()...)
		legacyregistry.CustomMustRegister(&nodeGauges)
		legacyregistry.RawMustRegister(version.Info())
		for _, r := range ledger.Results {
			promises.WithLabelValues(string(r))
		}
		for _, result := range []string{bindingWritten, bindingFailed, bindingDoubt} {
			// Each series must exist before its first increase, because an alert does not notice a
			// series that begins at 1.
			bindings.WithLabelValues(result)
		}
		for _, result := range []string{SearchedOnce, SearchedFurther, SearchedAll, SearchedNowhere} {
			searches.WithLabelValues(result)
		}
		for _, near := range placement.Nearnesses {
			devicePods.WithLabelValues(string(near))
		}
		for _, alignment := range dra.Alignments() {
			claimPods.WithLabelValues(dra.Near.String(), alignment)
			claimPods.WithLabelValues(dra.Required.String(), alignment)
		}
	})
}

type feedMetrics struct{}

var _ nodes.Metrics = feedMetrics{}

// PromiseSettled implements nodes.Metrics.
func (feedMetrics) PromiseSettled(r ledger.Result) { promises.WithLabelValues(string(r)).Inc() }

// ReportRefused implements nodes.Metrics.
func (feedMetrics) ReportRefused() { reportsRefused.Inc() }

// PlacementIgnored implements nodes.Metrics.
func (feedMetrics) PlacementIgnored() { podsRefused.WithLabelValues("placement").Inc() }
