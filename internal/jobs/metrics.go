package jobs

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/internal/version"
)

var (
	phasesEntered = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_controller_job_phases_total", Help: "How often Jobs (batch.volcano.sh) entered each phase.",
	}, []string{"phase"})
	jobsRefused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_controller_jobs_refused_total", Help: "Jobs refused because they are malformed or use fields that Berth does not support.",
	})
	podsCreated = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_controller_pods_created_total", Help: "Pods created for Jobs.",
	})
	podsDeleted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_controller_pods_deleted_total", Help: "Pods deleted by berth-controller.",
	})
)

func init() {
	metrics.Registry.MustRegister(phasesEntered, jobsRefused, podsCreated, podsDeleted, version.Info())
}
