package version

import "github.com/prometheus/client_golang/prometheus"

// InfoName is the metric with a program's release.
const InfoName = "berth_build_info"

// Info returns the metric InfoName: its value is 1, and its labels have the release of Berth and
// the release of Kubernetes that it was built from.
func Info() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: InfoName, Help: "Always 1; the labels have the release of Berth and the Kubernetes release that it was built from.",
		ConstLabels: prometheus.Labels{"version": Version, "kubernetes": Kubernetes()},
	}, func() float64 { return 1 })
}
