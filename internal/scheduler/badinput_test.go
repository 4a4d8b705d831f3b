package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// quick is a limit that no test here needs on a busy machine, and that work in proportion to the
// size of an input would exceed.
const quick = 15 * time.Second

func (f *fixture) wantEvent(reason string) {
	f.Helper()
	select {
	case e := <-f.events.Events:
		if !strings.Contains(e, reason) {
			f.Errorf("event %.200q, want %s", e, reason)
		}
		if len(e) > 2000 {
			f.Errorf("an event of %d bytes", len(e))
		}
	default:
		f.Errorf("no event, want %s", reason)
	}
}

func count(t *testing.T, m metrics.CounterMetric) float64 {
	t.Helper()
	v, err := testutil.GetCounterMetricValue(m)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestReportsThatAreTooMuch(t *testing.T) {
	register()
	ghosts := func(count int, text func(int) string) func(*v1alpha1.NodeTopology) {
		return func(nt *v1alpha1.NodeTopology) {
			nt.Status.Pods = make([]v1alpha1.PodAllocation, count)
			for i := range nt.Status.Pods {
				nt.Status.Pods[i] = v1alpha1.PodAllocation{UID: fmt.Sprint("ghost-", i), Containers: []v1alpha1.ContainerAllocation{{Name: text(i)}}}
			}
		}
	}
	for what, spoil := range map[string]func(*v1alpha1.NodeTopology){
		"a million entries": ghosts(1_000_000, func(int) string { return "c" }),
		"the same CPU for many": func(nt *v1alpha1.NodeTopology) {
			ghosts(1000, func(int) string { return "c" })(nt)
			for i := range nt.Status.Pods {
				nt.Status.Pods[i].Containers[0].CPUs = "1"
			}
		},
		"a machine of a megabyte": func(nt *v1alpha1.NodeTopology) { nt.Spec.Machine = strings.Repeat("package:2 ", 100_000) },
		"the same pod twice": func(nt *v1alpha1.NodeTopology) {
			ghosts(2, func(int) string { return "c" })(nt)
			nt.Status.Pods[1].UID = nt.Status.Pods[0].UID
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.feed.ReportSeen(f.topology())
			bad := f.topology()
			spoil(bad)
			before, begun := count(t, reportsRefused), time.Now()
			f.feed.ReportSeen(bad)
			if took := time.Since(begun); took > quick {
				t.Errorf("took %v", took)
			}
			if why := f.refusal("n"); why == "" || len(why) > 300 {
				t.Errorf("refused with %.400q", why)
			}
			if now := count(t, reportsRefused); now != before+1 {
				t.Errorf("the metric went from %v to %v", before, now)
			}
			f.wantEvent("ReportRefused")
		})
	}
}

// TestAReportThatIsNotReadyIsNotRefused: the node gets no pinned pods, but neither the metric nor
// an event blames the report.
func TestAReportThatIsNotReadyIsNotRefused(t *testing.T) {
	f := newFixture(t)
	nt := f.topology()
	nt.Status.Conditions[0].Status, nt.Status.Conditions[0].Reason = metav1.ConditionFalse, "KubeletAbsent"
	before := count(t, reportsRefused)
	f.feed.ReportSeen(nt)
	if why := f.refusal("n"); !strings.Contains(why, "not Ready: KubeletAbsent") {
		t.Errorf("the node is refused with %q", why)
	}
	if now := count(t, reportsRefused); now != before {
		t.Errorf("the metric went from %v to %v", before, now)
	}
	select {
	case e := <-f.events.Events:
		t.Errorf("event %q", e)
	default:
	}
}

// TestAllocationsOfPodsThatDoNotExist: resources of pods that are not in the API count as used, for
// a limited time.
func TestAllocationsOfPodsThatDoNotExist(t *testing.T) {
	f := newFixture(t)
	for i := range 7 {
		f.admit(pinned(fmt.Sprint("ghost", i), 2))
	}
	f.feed.ReportSeen(f.topology())
	begun := time.Now()
	f.want("more pods that may leave than are gone through", pinned("x", 4), ledger.Waiting)
	if took := time.Since(begun); took > quick {
		t.Errorf("took %v", took)
	}
	for i := range 7 {
		f.state.Release(fmt.Sprint("uid-ghost", i))
	}
	f.feed.ReportSeen(f.topology())
	f.want("they are gone", pinned("x", 4), ledger.Admitted)
	if err := f.table.Named("n").Account().View().Check(); err != nil {
		t.Error(err)
	}
}

func TestPodsThatCannotBeUnderstood(t *testing.T) {
	register()
	for _, policy := range []string{"None ", "restrictd", strings.Repeat("x", 256<<10), "restricted,scope=node", ""} {
		f := newFixture(t)
		p := pinned("x", 2)
		p.Annotations = map[string]string{wire.PolicyAnnotation: policy}
		before, begun := count(t, podsRefused.WithLabelValues("policy")), time.Now()
		_, status := f.PreFilter(t.Context(), newCycleData(), p, nil)
		if took := time.Since(begun); took > quick {
			t.Errorf("%.20q took %v", policy, took)
		}
		if msg := status.Message(); status.IsSuccess() || !strings.Contains(msg, "want") || len(msg) > 1000 {
			t.Errorf("%.20q: %.1200q", policy, msg)
		}
		if now := count(t, podsRefused.WithLabelValues("policy")); now != before+1 {
			t.Errorf("%.20q: the metric went from %v to %v", policy, before, now)
		}
		if f.waiters.Len() != 0 {
			t.Errorf("%.20q: it waits for nodes", policy)
		}
	}
	for _, placement := range []string{strings.Repeat("x", 256<<10), strings.Repeat("[", 100<<10), "{}", ""} {
		f := newFixture(t)
		f.feed.ReportSeen(f.topology())
		p := on(pinned("x", 2), "n")
		p.Annotations = map[string]string{wire.PlacementAnnotation: placement}
		before, begun := count(t, podsRefused.WithLabelValues("placement")), time.Now()
		f.feed.PodSeen(p, false)
		if took := time.Since(begun); took > quick {
			t.Errorf("%.20q took %v", placement, took)
		}
		if now := count(t, podsRefused.WithLabelValues("placement")); now != before+1 {
			t.Errorf("%.20q: the metric went from %v to %v", placement, before, now)
		}
		f.wantEvent("PlacementIgnored")
		if c := f.table.Named("n").Account().View().Census(); c.Afloat != 1 {
			t.Errorf("%.20q: %+v, want a pod whose order is not known", placement, c)
		}
	}
}

// crowded returns a Guaranteed pod with a number of containers, most of them init containers.
func crowded(name string, containers int) *corev1.Pod {
	pod := pinned(name, 1)
	for i := range containers - 1 {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprint("i", i)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

// TestPodsOfTooManyContainers are refused before any node is asked, because the time of an answer
// grows with the square of the number of containers.
func TestPodsOfTooManyContainers(t *testing.T) {
	register()
	for what, obeys := range map[string]bool{"kubelet": false, "berth": true} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			if f.feed.ReportSeen(f.topology()); obeys {
				f.obeys()
			}
			for _, pod := range []*corev1.Pod{crowded("x", placement.MaxContainers+1), with(crowded("y", 4000), map[string]string{wire.PolicyAnnotation: "single-numa-node"})} {
				_, status := f.PreFilter(t.Context(), newCycleData(), pod, nil)
				if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "at most 256") {
					t.Errorf("%s: PreFilter says %v, want a refusal that names the bound", pod.Name, status)
				}
				if waiting := f.core.waiters.Len(); waiting > 0 {
					t.Errorf("%d pods wait for nodes", waiting)
				}
			}
			state := newCycleData()
			if _, status := f.PreFilter(t.Context(), state, crowded("z", placement.MaxContainers), nil); !status.IsSuccess() {
				t.Errorf("PreFilter says %v to as many as there may be", status)
			}
		})
	}
}

// TestACrowdedPodOnANode: a tenant binds such a pod by spec.nodeName. It costs only its own report.
func TestACrowdedPodOnANode(t *testing.T) {
	register()
	f := newFixture(t)
	f.obeys()
	pod := crowded("x", 4000)
	pod.Spec.NodeName = "n"
	f.feed.PodSeen(pod, false)
	if census := f.table.Named("n").Account().View().Census(); census != (ledger.Census{}) {
		t.Errorf("the ledger keeps %+v", census)
	}
}
