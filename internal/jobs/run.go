package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/brief"
	"github.com/berth-dev/berth/internal/guarded"
)

// Options of the controller. The zero value serves Jobs of the schedulers berth and volcano,
// without leader election, metrics or probes.
type Options struct {
	// Scheduler is the schedulerName of pods whose Job names none; "" means berth.
	Scheduler string
	// Schedulers are the schedulers whose Jobs the controller serves, in addition to Jobs that name
	// no scheduler; nil means Scheduler and volcano.
	Schedulers []string
	// VolcanoLease is the Lease of Volcano's controller. While it is renewed, the Jobs of the
	// scheduler volcano belong to that controller. The zero value means
	// volcano-system/vc-controller-manager.
	VolcanoLease types.NamespacedName
	// LeaderElection is the namespace of the controller's own Lease; "" means no election.
	LeaderElection string
	// MetricsAddress and HealthAddress are the addresses of metrics and probes; "" means none.
	MetricsAddress, HealthAddress string
	// MetricsAuth restricts the readers of metrics: guarded.None, the default, or guarded.Cluster.
	// MetricsCerts is a folder with tls.crt and tls.key for the TLS server; "" means a generated
	// certificate.
	MetricsAuth, MetricsCerts string
	// Log is the logger; the zero value means controller-runtime's own logger.
	Log logr.Logger
	// Workers is the number of Jobs that are reconciled at a time, at most half of them in one
	// namespace; 0 means 4.
	Workers int
}

// volcano is the name of Volcano's scheduler.
const volcano = "volcano"

func (o *Options) fillIn() {
	o.Scheduler = cmp.Or(o.Scheduler, "berth")
	if o.Schedulers == nil {
		o.Schedulers = []string{o.Scheduler, volcano}
	}
	o.VolcanoLease = cmp.Or(o.VolcanoLease, types.NamespacedName{Namespace: "volcano-system", Name: "vc-controller-manager"})
	o.Workers = cmp.Or(o.Workers, 4)
}

// requestsPerSecond and requestsAtOnce limit requests to the API server, for each kind of object.
// With client-go's default of 5 per second, a Job would wait for seconds while pods of other Jobs
// are created.
const (
	requestsPerSecond = 200
	requestsAtOnce    = 400
)

// Run runs the controller until ctx ends, with its own rate limits.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	o.fillIn()
	config = paced(config)
	if o.Log.GetSink() != nil {
		ctrl.SetLogger(o.Log) // without this, controller-runtime logs a long warning
	}
	known, err := newScheme()
	if err != nil {
		return err
	}
	ours, err := labels.NewRequirement(batch.JobNameKey, selection.Exists, nil)
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        known,
		Logger:                        o.Log,
		Cache:                         cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.NewSelector().Add(*ours)}}},
		Metrics:                       o.metrics(),
		HealthProbeBindAddress:        cmp.Or(o.HealthAddress, nowhere),
		LeaderElection:                o.LeaderElection != "",
		LeaderElectionNamespace:       o.LeaderElection,
		LeaderElectionID:              "berth-controller",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	if err := setup(m, &o); err != nil {
		return err
	}
	return m.Start(ctx)
}

func paced(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = requestsPerSecond, requestsAtOnce, nil
	return config
}

func (o *Options) metrics() server.Options {
	out := server.Options{BindAddress: cmp.Or(o.MetricsAddress, nowhere)}
	if o.MetricsAuth == guarded.Cluster {
		out.SecureServing, out.CertDir = true, o.MetricsCerts
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return out
}

// nowhere is the address that turns a server of controller-runtime off.
const nowhere = "0"

func newScheme() (*runtime.Scheme, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, batch.AddToScheme, group.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func setup(m ctrl.Manager, o *Options) error {
	owner := &ownership{schedulers: o.Schedulers, lease: o.VolcanoLease, reader: m.GetAPIReader(), now: time.Now}
	r := &Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Events: brief.Recorder(m.GetEventRecorder("berth-controller")),
		Scheduler: o.Scheduler, Mine: owner.whyNot, Now: time.Now,
	}
	if err := m.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return err
	}
	if err := m.AddReadyzCheck("ready", healthz.Ping); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).For(&batch.Job{}).Owns(&corev1.Pod{}).Owns(&group.PodGroup{}).
		WithOptions(o.controller()).Named("berth-jobs").Complete(r)
}

func (o *Options) controller() controller.Options {
	queue := func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newQueue(name, o.Workers, limiter)
	}
	return controller.Options{MaxConcurrentReconciles: o.Workers, SkipNameValidation: new(true), RateLimiter: retries(), NewQueue: queue}
}

type ownership struct {
	schedulers []string
	lease      types.NamespacedName
	reader     client.Reader
	now        func() time.Time

	mu sync.Mutex
	// renewed is the time of the Lease's last renewal, by another machine's clock. since is the
	// time when this controller first saw this renewal, by this machine's clock.
	renewed, since time.Time
}

// whyNot explains why this controller does not own a Job of a scheduler, or returns "". If this
// cannot be determined, the Job counts as Volcano's, because two controllers of one Job would
// create its pods twice.
func (o *ownership) whyNot(ctx context.Context, scheduler string) string {
	if scheduler != "" && !slices.Contains(o.schedulers, scheduler) {
		return fmt.Sprintf("spec.schedulerName %q: berth-controller serves only Jobs with schedulerName %s", scheduler, strings.Join(o.schedulers, " or "))
	}
	if scheduler != volcano {
		return ""
	}
	lease := new(coordinationv1.Lease)
	err := o.reader.Get(ctx, o.lease, lease)
	switch {
	case apierrors.IsNotFound(err):
		return ""
	case err != nil:
		return fmt.Sprintf("cannot find out if Volcano's controller runs: %v", err)
	case lease.Spec.RenewTime != nil && o.lives(lease.Spec.RenewTime.Time):
		return fmt.Sprintf("Volcano's controller runs (Lease %s) and owns Jobs of the scheduler volcano: give the Job another schedulerName, or stop that controller", o.lease)
	}
	return ""
}

// lives reports whether a Lease that was renewed at that time is still being renewed. As in leader
// election, it does not compare the clocks of two machines. Only a very old renewal counts as
// expired at once.
func (o *ownership) lives(renewed time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if !renewed.Equal(o.renewed) {
		o.renewed, o.since = renewed, now
	}
	return now.Sub(renewed) < leaseForgotten && now.Sub(o.since) < leaseExpires
}

const (
	// leaseExpires is the time without a renewal after which Volcano's controller counts as
	// stopped. It is many times the interval of its renewals.
	leaseExpires = 2 * time.Minute
	// leaseForgotten is the age at which a Lease counts as expired at once. It is larger than the
	// difference between the clocks of two machines.
	leaseForgotten = time.Hour
)

// retries returns the rate limiter for Jobs whose reconciliation failed. Each Job counts its own
// failures. The default rate limiter of client-go also has one bucket for all Jobs, which the Jobs
// of a tenant with an exhausted quota would empty.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Minute
)
