package e2e

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/cli"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/topology"
)

// reservationCluster is a hollow cluster that serves Reservations.
type reservationCluster struct {
	*hollowCluster
	objects dynamic.Interface
}

// ownerLabel is the label of owners. Its value is the name of the Reservation.
const ownerLabel = "owns"

// reservationOf returns a Reservation for the request of a pod, with memory for several owners.
func reservationOf(name string, template *corev1.Pod) *koordinator.Reservation {
	r := &template.Spec.Containers[0].Resources
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		list[corev1.ResourceMemory] = resource.MustParse("512Mi")
	}
	return &koordinator.Reservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: koordinator.GroupVersion.String(), Kind: "Reservation"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: koordinator.ReservationSpec{
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: template.Annotations}, Spec: template.Spec},
			Owners:   []koordinator.ReservationOwner{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{ownerLabel: name}}}},
		},
	}
}

func owner(p *corev1.Pod, of string) *corev1.Pod {
	p.Labels = map[string]string{ownerLabel: of}
	return p
}

func (c *reservationCluster) reserve(r *koordinator.Reservation, change ...func(map[string]any)) {
	c.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	c.must(err)
	for _, edit := range change {
		edit(object["spec"].(map[string]any))
	}
	_, err = c.objects.Resource(koordinator.Reservations).Create(c.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	c.must(err)
}

func (c *reservationCluster) get(name string) *koordinator.Reservation {
	c.Helper()
	u, err := c.objects.Resource(koordinator.Reservations).Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	text, err := json.Marshal(u.Object)
	c.must(err)
	r := new(koordinator.Reservation)
	c.must(json.Unmarshal(text, r))
	var written struct { // a malformed object is read without its status
		Status koordinator.ReservationStatus `json:"status"`
	}
	c.must(json.Unmarshal(text, &written))
	r.Status = written.Status
	return r
}

// awaitReservation waits until done returns true for the Reservation.
func (c *reservationCluster) awaitReservation(name, what string, done func(*koordinator.Reservation) bool) *koordinator.Reservation {
	c.Helper()
	var last *koordinator.Reservation
	defer func() {
		if c.Failed() {
			c.Logf("Reservation %s: %+v", name, last.Status)
		}
	}()
	c.await("Reservation "+name+" "+what, func([]corev1.Pod) bool {
		last = c.get(name)
		return done(last)
	})
	return last
}

func phase(p koordinator.ReservationPhase) func(*koordinator.Reservation) bool {
	return func(r *koordinator.Reservation) bool { return r.Status.Phase == p }
}

// says reports whether a condition of the type has the reason and the text.
func says(kind, reason, text string) func(*koordinator.Reservation) bool {
	return func(r *koordinator.Reservation) bool {
		return slices.ContainsFunc(r.Status.Conditions, func(c koordinator.ReservationCondition) bool {
			return c.Type == kind && c.Reason == reason && strings.Contains(c.Message, text)
		})
	}
}

// place returns the CPUs in the Reservation's placement.
func (c *reservationCluster) place(name string) (cpus topology.CPUSet) {
	c.Helper()
	r := c.get(name)
	p, found, err := wire.ReadPlacement(&corev1.Pod{ObjectMeta: r.ObjectMeta})
	c.must(err)
	if !found {
		c.Fatalf("Reservation %s has no decision: %v", name, r.Annotations)
	}
	for i := range p.Decision.Containers {
		cpus = cpus.Or(&p.Decision.Containers[i].CPUs)
	}
	return cpus
}

// given returns the node and the CPUs of a pod's Binding.
func (c *reservationCluster) given(name string) (node string, cpus topology.CPUSet) {
	c.Helper()
	pod := c.pod(name)
	p, _, err := wire.ReadPlacement(pod)
	c.must(err)
	for i := range p.Decision.Containers {
		cpus = cpus.Or(&p.Decision.Containers[i].CPUs)
	}
	return pod.Spec.NodeName, cpus
}

// TestReservations holds room on two nodes that obey and on one where the kubelet decides. Other
// pods do not get the room, and owners do, also after the scheduler was killed while a Reservation
// was partly used. Reservations that cannot be served or have ended report this and hold nothing.
func TestReservations(t *testing.T) {
	t.Parallel()
	h := newHollowClusterOn(t, 3, controlplane.Options{Dir: shortDir(t)}, func(s *hollow.Spec) {
		if s.Name != "h2" {
			obeyingNode(s)
		}
	})
	c := &reservationCluster{hollowCluster: h}
	c.must(c.ControlPlane.Apply(t.Context(), podgroup.Reservations()))
	var err error
	c.objects, err = dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	c.must(err)
	c.restartScheduler(nil) // otherwise the scheduler finds the new kind only after a minute

	half := reservationOf("half", onNode(ask("", "4", true, wire.PolicyAnnotation+"=restricted"), "h0"))
	many := false
	half.Spec.AllocateOnce = &many
	c.reserve(half)
	c.awaitReservation("half", "to be there", phase(koordinator.ReservationAvailable))
	held := c.place("half")
	if held.Len() != 4 {
		t.Fatalf("held are CPUs %s, want 4", held)
	}
	c.create(onNode(ask("beside", "10", true), "h0"))
	c.awaitRunning("beside")
	c.create(onNode(ask("stranger", "1", true), "h0"))
	c.awaitUnschedulable("stranger", "Insufficient cpu")
	c.create(owner(ask("own1", "2", true), "half"))
	c.awaitRunning("own1", "beside")
	c.awaitReservation("half", "to have an owner", func(r *koordinator.Reservation) bool { return len(r.Status.CurrentOwners) == 1 })
	c.prints("pods -A", "reservation/half", "held")

	c.restartScheduler(nil)
	c.create(owner(ask("own2", "2", true), "half"))
	c.awaitRunning("own2")
	r := c.awaitReservation("half", "to be used up", func(r *koordinator.Reservation) bool { return len(r.Status.CurrentOwners) == 2 })
	if got := r.Status.Allocated[corev1.ResourceCPU]; got.Value() != 4 || r.Status.NodeName != "h0" || !says("Ready", "Available", "")(r) {
		t.Errorf("status: %+v", r.Status)
	}
	node, first := c.given("own1")
	also, second := c.given("own2")
	if both := first.Or(&second); node != "h0" || also != "h0" || both != held || first.Intersects(&second) {
		t.Errorf("owners have %s on %s and %s on %s, held are %s on h0", first, node, second, also, held)
	}
	c.create(onNode(owner(ask("own3", "2", true), "half"), "h1")) // this owner is placed like any other pod
	c.awaitRunning("own3")
	c.delete("own1", nil)
	c.create(onNode(owner(ask("own4", "2", true), "half"), "h0"))
	c.awaitRunning("own4")
	if _, cpus := c.given("own4"); cpus != first {
		t.Errorf("the next owner has %s, want what the first one had: %s", cpus, first)
	}
	c.awaitObeyed("with owners")

	c.reserve(reservationOf("whole", onNode(ask("", "6", true), "h2")))
	c.awaitReservation("whole", "to be there", phase(koordinator.ReservationAvailable))
	c.create(onNode(ask("six", "6", true), "h2"))
	c.awaitRunning("six")
	c.create(onNode(ask("more", "6", true), "h2"))
	c.awaitUnschedulable("more", "Insufficient cpu")
	c.create(owner(ask("own5", "7", true), "whole")) // one CPU more than the Reservation holds
	c.awaitRunning("own5")
	c.awaitReservation("whole", "to be used up", phase(koordinator.ReservationSucceeded))
	if node, _ := c.given("own5"); node != "h2" {
		t.Errorf("its owner is on %s", node)
	}
	c.refusedReservations()

	c.must(c.objects.Resource(koordinator.Reservations).Delete(t.Context(), "half", metav1.DeleteOptions{}))
	c.delete("own2", nil)
	c.delete("own4", nil)
	c.awaitRunning("stranger")
	c.awaitObeyed("without Reservations")
	c.demandKept()
	for _, name := range []string{"more", "vague"} {
		c.delete(name, nil)
	}
	c.must(c.objects.Resource(koordinator.Reservations).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	c.clean()
}

// prints runs kubectl berth, and checks its output.
func (c *reservationCluster) prints(args string, want ...string) {
	c.Helper()
	kubeconfig, err := c.ControlPlane.Kubeconfig("admin", []string{"system:masters"})
	c.must(err)
	file := filepath.Join(c.TempDir(), "config")
	write(c.T, file, kubeconfig)
	var out, errs bytes.Buffer
	code := cli.Run(c.Context(), slices.Concat([]string{"kubectl-berth"}, strings.Fields(args), []string{"--kubeconfig", file}), strings.NewReader(""), &out, &errs)
	for _, w := range want {
		if code != 0 || !strings.Contains(out.String(), w) {
			c.Errorf("berth %s: exit code %d, printed\n%s%s\nwant %q", args, code, out.String(), errs.String(), w)
		}
	}
}

// refusedReservations: Reservations that cannot be served get no node, and their condition explains
// why.
func (c *reservationCluster) refusedReservations() {
	c.Helper()
	c.reserve(reservationOf("huge", ask("", "40", true)))
	c.awaitReservation("huge", "to say why", says("Scheduled", "Unschedulable", "Insufficient cpu"))
	c.reserve(reservationOf("early", ask("", "1", true)), func(spec map[string]any) { spec["preAllocation"] = true })
	c.awaitReservation("early", "to say why", says("Scheduled", "Unschedulable", "spec.preAllocation"))
	c.reserve(reservationOf("newer", ask("", "1", true)), func(spec map[string]any) { spec["someday"] = true })
	c.awaitReservation("newer", "to say why", says("Scheduled", "Unschedulable", "spec.someday"))
	c.reserve(reservationOf("mad", ask("", "1", true)), func(spec map[string]any) {
		spec["template"] = map[string]any{"spec": map[string]any{"containers": "none"}}
	})
	c.awaitReservation("mad", "to say why", says("Scheduled", "Unschedulable", "spec.template.spec.containers"))
	past := reservationOf("past", ask("", "1", true))
	past.Spec.Expires = &metav1.Time{Time: metav1.Now().Add(-1)}
	c.reserve(past)
	c.awaitReservation("past", "to have expired", says("Ready", "Expired", "expired"))
	foreign := reservationOf("foreign", ask("", "1", true))
	foreign.Spec.Template.Spec.SchedulerName = "koord-scheduler"
	c.reserve(foreign)
	c.create(owner(ask("picky", "1", true, wire.ReservationAffinityAnnotation+`={"name":"picked"}`), "picked"))
	c.awaitUnschedulable("picky", "no Reservation that the pod owns")
	c.create(ask("vague", "1", true, wire.ReservationAffinityAnnotation+`={"nam":"picked"}`))
	c.awaitUnschedulable("vague", `unknown field "nam"`)
	c.reserve(reservationOf("picked", ask("", "1", true)))
	c.awaitRunning("picky")
	c.awaitReservation("picked", "to be used up", phase(koordinator.ReservationSucceeded))
	c.reserve(reservationOf("last", ask("", "1", true)))
	c.awaitReservation("last", "to be there", phase(koordinator.ReservationAvailable))
	if r := c.get("foreign"); r.Status.Phase != "" {
		c.Errorf("somebody else's: %+v", r.Status)
	}
	c.await("events about huge, early and mad", func([]corev1.Pod) bool {
		events, err := c.Client.EventsV1().Events("default").List(c.Context(), metav1.ListOptions{})
		c.must(err)
		about := map[string]bool{}
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.Kind == "Reservation" && e.Reason == "FailedScheduling" {
				about[e.Regarding.Name] = true
			}
		}
		return about["huge"] && about["early"] && about["mad"]
	})
}
