package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/version"
)

// metricSet has the metrics of the closed records of the shadow.Book, of judged claims, and of
// refused reports.
type metricSet struct {
	registry metrics.KubeRegistry
	pods     *metrics.CounterVec
	unjudged *metrics.CounterVec
	instead  *metrics.CounterVec
	claims   *metrics.CounterVec
	reports  *metrics.Counter
}

func newMetricSet() *metricSet {
	vec := func(name, help string, label string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "berth", Subsystem: "shadow", Name: name, StabilityLevel: metrics.ALPHA, Help: help}, []string{label})
	}
	m := &metricSet{
		registry: metrics.NewKubeRegistry(),
		pods:     vec("pods_total", "Pods that other schedulers bound, by the result of the prediction: exact, byVerdict, either, wrong, foretold, missed, falseAlarm, notJudged. wrong, missed and falseAlarm must stay 0.", "result"),
		unjudged: vec("not_judged_total", "Pods whose prediction was not judged, by the reason.", "reason"),
		instead:  vec("elsewhere_total", "Pods that Berth would have placed on another node: rejected pods that would have been admitted there, pods that would have been on fewer NUMA nodes (split), and pods that would have left fewer devices without CPUs (stranded).", "why"),
		claims:   vec("claim_pods_total", "Pods with ResourceClaims, by the alignment of their devices with the CPUs and memory that the kubelet assigned.", "alignment"),
		reports: metrics.NewCounter(&metrics.CounterOpts{Namespace: "berth", Subsystem: "shadow", Name: "reports_refused_total", StabilityLevel: metrics.ALPHA,
			Help: "Node reports that Berth refused, for example because they contradict themselves or cannot be parsed."}),
	}
	m.registry.MustRegister(m.all()...)
	m.registry.RawMustRegister(version.Info())
	for _, alignment := range claims.Alignments() {
		m.claims.WithLabelValues(alignment)
	}
	for _, r := range shadow.Results {
		m.pods.WithLabelValues(string(r))
	}
	for _, r := range shadow.Reasons {
		m.unjudged.WithLabelValues(string(r.Reason))
	}
	for _, why := range shadow.Whys {
		m.instead.WithLabelValues(string(why))
	}
	return m
}

func (m *metricSet) all() []metrics.Registerable {
	return []metrics.Registerable{m.pods, m.unjudged, m.instead, m.claims, m.reports}
}

func (m *metricSet) count(r *shadow.Record) {
	m.pods.WithLabelValues(string(r.Result)).Inc()
	if r.Result == shadow.NotJudged {
		m.unjudged.WithLabelValues(string(r.Reason)).Inc()
	}
	if r.Instead != nil {
		m.instead.WithLabelValues(string(r.Instead.Why)).Inc()
	}
}

// Handler serves the view as JSON, the captures, metrics and health.
func (w *Witness) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shadow", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(w.View())
	})
	mux.HandleFunc("GET /captures/{name}", func(out http.ResponseWriter, r *http.Request) {
		data := w.capture(r.PathValue("name"))
		if data == nil {
			http.Error(out, fmt.Sprintf("there is no capture %.100q: want a name from /shadow; the last %d captures are kept", r.PathValue("name"), maxCaptures), http.StatusNotFound)
			return
		}
		out.Header().Set("Content-Type", "application/gzip")
		_, _ = out.Write(data)
	})
	mux.Handle("GET /metrics", metrics.HandlerFor(w.metrics.registry, metrics.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(out http.ResponseWriter, _ *http.Request) {
		if !w.Ready() {
			http.Error(out, "not all pods, nodes and reports have been read yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = out.Write([]byte("ok\n"))
	})
	return mux
}

// Serve watches the cluster and serves the Handler, until ctx ends or one of the two fails.
func (w *Witness) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- w.Run(ctx)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// ReportRefused implements nodes.Metrics.
func (m *metricSet) ReportRefused() { m.reports.Inc() }

// PromiseSettled implements nodes.Metrics. It does nothing, because the shadow.Book counts.
func (*metricSet) PromiseSettled(ledger.Result) {}

// PlacementIgnored implements nodes.Metrics. It does nothing.
func (*metricSet) PlacementIgnored() {}
