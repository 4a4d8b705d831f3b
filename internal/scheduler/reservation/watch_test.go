package reservation

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/scheduler/lead"
)

// TestForbiddenReservationsAreNotNone: if the kind is served but may not be read, no pod is placed
// until it may be read. If it is not served, there are no Reservations.
func TestForbiddenReservationsAreNotNone(t *testing.T) {
	for name, c := range map[string]struct {
		served []metav1.APIResource // nil: not even the group is served
		want   bool                 // read without the permission
	}{
		"not served":           {nil, true},
		"another kind alone":   {[]metav1.APIResource{{Name: "devices"}}, true},
		"served and forbidden": {[]metav1.APIResource{{Name: "devices"}, {Name: "reservations"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			var gone atomic.Bool
			answer := func(w http.ResponseWriter, code int, o any) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(o)
			}
			refuse := func(w http.ResponseWriter, code int, reason metav1.StatusReason) {
				answer(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
			}
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch {
				case q.URL.Path == "/apis/scheduling.koordinator.sh/v1alpha1" && c.served == nil:
					asked.Add(1)
					refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
				case q.URL.Path == "/apis/scheduling.koordinator.sh/v1alpha1":
					asked.Add(1)
					answer(w, http.StatusOK, metav1.APIResourceList{APIResources: c.served})
				case gone.Load():
					refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
				default:
					refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
				}
			}))
			t.Cleanup(api.Close)
			clock := testingclock.NewFakeClock(time.Unix(1000, 0))
			rs := New(Options{Clock: clock, Logger: klog.Background(), Lead: new(lead.Gate)})
			client, err := apiclient.Koordinator(&rest.Config{Host: api.URL})
			if err != nil {
				t.Fatal(err)
			}
			go (&reader{rs, client}).discover(t.Context())
			begun := make(chan struct{})
			go func() { rs.Between(); close(begun) }()
			passes := func(until func() bool) {
				for !until() {
					if clock.HasWaiters() {
						clock.Step(retryEvery)
					}
					runtime.Gosched()
				}
			}
			open := func() bool {
				select {
				case <-begun:
					return true
				default:
					return false
				}
			}
			passes(func() bool { return open() || asked.Load() >= 3 })
			if open() != c.want {
				t.Fatalf("pods are placed: %v, want %v", open(), c.want)
			}
			gone.Store(true) // the kind is gone
			passes(open)
		})
	}
}

// TestMalformedReservationsAreTold: an object that does not match the types gets a condition, from
// the scheduler that it names, or from every scheduler if that name cannot be read.
func TestMalformedReservationsAreTold(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"an amount":           {`{"template":{"spec":{"schedulerName":"berth","containers":[{"name":"c","resources":{"requests":{"cpu":"four"}}}]}}}`, `Reservation r: spec.template.spec.containers[0].resources.requests.cpu: "four": want an amount such as 2, 500m or 2Gi`},
		"another scheduler's": {`{"template":{"spec":{"schedulerName":"koord-scheduler","containers":"x"}}}`, ""},
		"no template":         {`{"template":"x"}`, `Reservation r: spec.template: "x": want an object`},
	} {
		w := newWorld(t)
		uid := w.reservation("r", 4)
		o := new(koordinator.Reservation)
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"r","uid":"r-uid","resourceVersion":"`+w.objects[uid].ResourceVersion+`"},"spec":`+c.spec+`}`), o); err != nil {
			t.Fatal(err)
		}
		w.objects[uid] = o
		w.told()
		said := ""
		for _, condition := range w.objects[uid].Status.Conditions {
			said += condition.Message
		}
		if !strings.HasPrefix(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: told %q, want %q", name, said, c.want)
		}
	}
}
