package agent

import (
	"encoding/json"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// Metrics are the agent's own metrics, all with the prefix berth_agent_.
type Metrics struct {
	reports    *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
	readErrors prometheus.Counter
	latency    prometheus.Histogram
	age        prometheus.GaugeFunc
	ready      prometheus.Gauge
	sequence   prometheus.Gauge
	arriving   prometheus.Gauge
	pods       prometheus.Gauge
	bytes      prometheus.GaugeFunc
	astray     prometheus.Gauge
	occupancy  occupancyMetrics
	// published is the published report. Its size is computed when the metrics are read.
	published atomic.Pointer[v1alpha1.NodeTopology]
}

// newMetrics creates metrics; age returns the age of the report in seconds.
func newMetrics(age func() float64) *Metrics {
	const ns = "berth_agent"
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: name, Help: help})
	}
	m := &Metrics{
		reports:    prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "report_writes_total", Help: "Writes of the node's NodeTopology, by result: ok or error."}, []string{"result"}),
		heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "heartbeats_total", Help: "Renewals of the node's Lease, by result: ok or error."}, []string{"result"}),
		readErrors: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "read_errors_total", Help: "Failed attempts to read the node, and attempts in which the kubelet's checkpoints contradicted each other."}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: ns, Name: "report_latency_seconds",
			Help: "Seconds from the first sign of a change on the node until the API server acknowledged the report.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12)}),
		age:      prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Name: "report_age_seconds", Help: "Seconds since the agent last confirmed the published report; -1 before the first confirmation."}, age),
		ready:    gauge("report_ready", "1 if the published report is Ready."),
		sequence: gauge("report_sequence", "Sequence number of the published report."),
		arriving: gauge("arriving_pods", "Pods whose admission is under way in the kubelet's checkpoints."),
		pods:     gauge("reported_pods", "Pods in the published report."),
		astray:   gauge("containers_astray", "On a node with authority berth: containers that do not run on the CPUs or memory nodes that were decided, or whose start is held back."),
	}
	m.bytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Name: "report_bytes", Help: "Size of the published report as JSON."}, func() float64 {
		nt := m.published.Load()
		if nt == nil {
			return 0
		}
		data, _ := json.Marshal(nt) // the agent has already sent the same object
		return float64(len(data))
	})
	return m
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.reports, m.heartbeats, m.readErrors, m.latency, m.age, m.ready, m.sequence, m.arriving, m.pods, m.bytes, m.astray, &m.occupancy}
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
