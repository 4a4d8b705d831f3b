package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/guarded"
)

// TestOneOwner: schedulerName and Volcano's Lease decide which controller a Job has.
func TestOneOwner(t *testing.T) {
	now := time.Unix(1_760_000_000, 0)
	known, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	var o Options
	o.fillIn()
	lease := func(ago time.Duration) client.Object {
		renewed := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.VolcanoLease.Namespace, Name: o.VolcanoLease.Name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
		}
	}
	broken := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("no connection")
	}}
	for name, c := range map[string]struct {
		scheduler string
		reader    client.Reader
		want      string
	}{
		"no name":                         {"", fake.NewClientBuilder().WithScheme(known).Build(), ""},
		"Berth's":                         {"berth", fake.NewClientBuilder().WithScheme(known).Build(), ""},
		"another's":                       {"default-scheduler", fake.NewClientBuilder().WithScheme(known).Build(), "serves only Jobs with schedulerName berth or volcano"},
		"volcano, where nobody else runs": {"volcano", fake.NewClientBuilder().WithScheme(known).Build(), ""},
		"volcano, where it runs":          {"volcano", fake.NewClientBuilder().WithScheme(known).WithObjects(lease(time.Second)).Build(), "Volcano's controller runs"},
		"volcano, where it ran once":      {"volcano", fake.NewClientBuilder().WithScheme(known).WithObjects(lease(time.Hour)).Build(), ""},
		"volcano, where nobody knows":     {"volcano", fake.NewClientBuilder().WithScheme(known).WithInterceptorFuncs(broken).Build(), "cannot find out if"},
	} {
		own := ownership{schedulers: o.Schedulers, lease: o.VolcanoLease, reader: c.reader, now: func() time.Time { return now }}
		if got := own.whyNot(t.Context(), c.scheduler); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want ...%s...", name, got, c.want)
		}
	}
}

// TestVolcanosClockIsNotBelieved: the local clock decides whether its controller renews the Lease.
func TestVolcanosClockIsNotBelieved(t *testing.T) {
	begun := time.Unix(1_760_000_000, 0)
	now := begun
	o := ownership{now: func() time.Time { return now }}
	for _, c := range []struct {
		passed, renewed time.Duration
		want            bool
	}{
		{0, -10 * time.Minute, true}, // its clock is slow, or it has stopped
		{time.Minute, -9 * time.Minute, true},
		{2 * time.Minute, -9 * time.Minute, true},
		{3 * time.Minute, -9 * time.Minute, false},
		{4 * time.Minute, 20 * time.Minute, true}, // it runs again, and its clock is fast
		{6 * time.Minute, 20 * time.Minute, false},
		{7 * time.Minute, -time.Hour, false},
	} {
		now = begun.Add(c.passed)
		if got := o.lives(begun.Add(c.renewed)); got != c.want {
			t.Errorf("after %s, renewed at %s: %t, want %t", c.passed, c.renewed, got, c.want)
		}
	}
}

// TestMetricsAreGuardedWhereAsked: with TLS, and with a filter.
func TestMetricsAreGuardedWhereAsked(t *testing.T) {
	for auth, want := range map[string]bool{"": false, guarded.None: false, guarded.Cluster: true} {
		o := Options{MetricsAddress: ":9747", MetricsAuth: auth, MetricsCerts: "/certs"}
		m := o.metrics()
		if m.SecureServing != want || (m.FilterProvider != nil) != want || (m.CertDir == "/certs") != want || m.BindAddress != ":9747" {
			t.Errorf("%q: %+v, want guarded %t", auth, m, want)
		}
	}
}

// TestControllerAsksAtItsOwnPace: the controller does not use client-go's limit of 5 requests per
// second, and does not change the caller's config.
func TestControllerAsksAtItsOwnPace(t *testing.T) {
	for _, qps := range []float32{0, -1, 5} {
		config := &rest.Config{QPS: qps}
		if got := paced(config); got.QPS != requestsPerSecond || got.Burst != requestsAtOnce || config.QPS != qps {
			t.Errorf("%v requests a second, %d at once, and the caller has %v: want %d, %d and %v", got.QPS, got.Burst, config.QPS, requestsPerSecond, requestsAtOnce, qps)
		}
	}
}

// TestFailuresOfOthersDelayNobody: the first retry of a Job comes at once, however often other Jobs
// have failed.
func TestFailuresOfOthersDelayNobody(t *testing.T) {
	limiter := retries()
	other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: "other"}}
	for range 10_000 {
		limiter.When(other)
	}
	job := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "friend", Name: "job"}}
	if got := limiter.When(job); got != firstRetry {
		t.Errorf("its first retry waits %v, want %v", got, firstRetry)
	}
	if got := limiter.When(other); got != lastRetry {
		t.Errorf("the other waits %v, want %v", got, lastRetry)
	}
}
