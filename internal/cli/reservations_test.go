package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// obeying returns the report of a node on which Berth decides, with the pods in decided.
func obeying(t testing.TB, name string, decided ...*placement.Decision) *wire.Node {
	t.Helper()
	m := shapes.Machine(twoSockets)
	view := made.View(t, m)
	n := &wire.Node{Name: name, Spec: wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityBerth, KubeletVersion: "v1.36.3",
		Config: placement.Config{Version: placement.V136, Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0,8"}}}
	n.Report = wire.Report{Sequence: 7, Observed: noon.Add(-5 * time.Minute), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent, LastTransitionTime: metav1.NewTime(noon)}}}
	s := stateOf(t, &n.Spec)
	for _, d := range decided {
		s.Commit(nil, d)
		n.Report.Pods = append(n.Report.Pods, wire.ReportedPod{Namespace: "default", Name: strings.TrimPrefix(d.UID, "uid-")})
	}
	n.Report.Snapshot = s.Snapshot()
	return n
}

func stateOf(t testing.TB, spec *wire.NodeSpec) *placement.State {
	t.Helper()
	model := made.ModelOf(t, spec.View, spec.Config)
	return model.NewState()
}

// addReservation adds a Reservation for pods with a label of its name.
func (w *world) addReservation(name, node string, template *corev1.Pod) *koordinator.Reservation {
	many, forever := false, metav1.Duration{}
	w.reservations = append(w.reservations, koordinator.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(len(w.reservations)-100) * time.Second))},
		Spec: koordinator.ReservationSpec{
			Template: &corev1.PodTemplateSpec{Spec: template.Spec}, AllocateOnce: &many, TTL: &forever,
			Owners: []koordinator.ReservationOwner{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": name}}}},
		},
	})
	o := &w.reservations[len(w.reservations)-1]
	o.Spec.Template.Spec.NodeName = ""
	if node != "" {
		o.Status = koordinator.ReservationStatus{Phase: koordinator.ReservationAvailable, NodeName: node}
	}
	return o
}

// decide decides for the pod of an object, writes the decision into the object's annotations, and
// commits it.
func decide(t testing.TB, s *placement.State, uid string, o metav1.Object, pod *corev1.Pod) *placement.Decision {
	t.Helper()
	r := *requestOf(t, pod)
	r.UID = uid
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.OK() {
		t.Fatalf("%s: %+v", uid, v)
	}
	s.Commit(&r, &d)
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: d})
	if err != nil {
		t.Fatal(err)
	}
	o.SetAnnotations(map[string]string{wire.PlacementAnnotation: text})
	return &d
}

// reservedWorld has three Reservations: one of six CPUs on a node where Berth decides, two of which
// an owner uses, one on a node where a kubelet decides, and one without a place.
func reservedWorld(t testing.TB) *world {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 8)
	for _, name := range []string{"n1", "n2"} {
		w.addNode(name, 3*time.Second)
	}
	template := func(cpus, gpus int64) *corev1.Pod {
		pod := w.addPod("template", "", cpus, gpus).DeepCopy()
		w.pods = w.pods[:len(w.pods)-1]
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("4Gi")
		return pod
	}
	n1 := obeying(t, "n1")
	s := stateOf(t, &n1.Spec)
	six := w.addReservation("training", "n1", template(6, 0))
	six.Spec.AllocatePolicy = koordinator.AllocateRestricted
	place := decide(t, s, string(six.UID), six, template(6, 0))
	held := &placement.PodAllocation{UID: place.UID, Containers: heldOf(place)}
	s.Release(place.UID)
	s.Hold(held)
	owner := w.addPod("first", "n1", 2, 0)
	owner.Labels = map[string]string{"of": "training"}
	var within placement.Decision
	if v := placement.DecideWithin(s, held, requestOf(t, owner), &within); !v.OK() {
		t.Fatalf("%+v", v)
	}
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 2, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: within})
	if err != nil {
		t.Fatal(err)
	}
	owner.Annotations = map[string]string{wire.PlacementAnnotation: text, wire.AllocatedAnnotation: `{"name":"training","uid":"uid-training"}`,
		wire.BoundForAnnotation: wire.WriteBoundFor(owner, wire.BoundFor{Reservation: "uid-training"})}
	w.addTopology(obeying(t, "n1", &within), nil)
	w.addTopology(reportOf(t, "n2"), nil)
	w.addReservation("inference", "n2", template(4, 1))
	waiting := w.addReservation("large", "", template(40, 0))
	waiting.Status.Phase = koordinator.ReservationPending
	waiting.Status.Conditions = []koordinator.ReservationCondition{{Type: koordinator.ReservationScheduled, Status: metav1.ConditionFalse, Reason: koordinator.ReasonReservationUnschedulable, Message: "0/2 nodes are available"}}
	for _, one := range []struct {
		name, of string
		cpus     int64
	}{{"next", "training", 4}, {"toolarge", "training", 5}, {"comes", "inference", 4}, {"waits", "large", 4}} {
		w.addPod(one.name, "", one.cpus, 0).Labels = map[string]string{"of": one.of}
	}
	picky := w.addPod("picky", "", 5, 0)
	picky.Labels, picky.Annotations = map[string]string{"of": "training"}, map[string]string{wire.ReservationAffinityAnnotation: `{"name":"training"}`}
	return w
}

func heldOf(d *placement.Decision) (out []placement.ContainerAllocation) {
	for i := range d.Containers {
		c := &d.Containers[i]
		out = append(out, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Devices: c.Devices, Shares: c.Shares})
	}
	return out
}

// TestReservationsShown compares the output about Reservations with golden files.
func TestReservationsShown(t *testing.T) {
	w := reservedWorld(t)
	config := w.kubeconfig()
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"reservations-nodes":            {[]string{"nodes"}, ExitOK},
		"reservations-node":             {[]string{"nodes", "n1"}, ExitOK},
		"reservations-json":             {[]string{"nodes", "-o", "jsonpath={.nodes[*].held}"}, ExitOK},
		"reservations-pods":             {[]string{"pods", "-A"}, ExitOK},
		"reservations-explain-owner":    {[]string{"explain", "first"}, ExitOK},
		"reservations-explain-next":     {[]string{"explain", "next"}, ExitOK},
		"reservations-explain-toolarge": {[]string{"explain", "toolarge"}, ExitOK},
		"reservations-explain-picky":    {[]string{"explain", "picky"}, ExitFailure},
		"reservations-explain-comes":    {[]string{"explain", "comes"}, ExitOK},
		"reservations-explain-waits":    {[]string{"explain", "waits"}, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			runGolden(t, name, c.code, append(c.args, "--kubeconfig", config)...)
		})
	}
	code, stdout, _ := run(t, "nodes", "n1", "-o", "svg", "--kubeconfig", config)
	if code != ExitOK || strings.Count(stdout, ": held by reservation/training<") != 4 || !strings.Contains(stdout, "1 pod with a berth, and 1 place held for pods to come") {
		t.Errorf("%d: the drawing does not tell what is held:\n%s", code, stdout)
	}
}

// TestWatchReservations: the reserved resources are shown among pods and in the free amounts of
// nodes, until the Reservation ends. A snapshot has them, too.
func TestWatchReservations(t *testing.T) {
	w := reservedWorld(t)
	kept := filepath.Join(t.TempDir(), "cluster.berth")
	if code, stdout, stderr := run(t, "snapshot", kept, "--kubeconfig", w.kubeconfig()); code != ExitOK {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	if code, stdout, _ := run(t, "nodes", "--snapshot", kept); code != ExitOK || !strings.Contains(stdout, "training      4 (2-3,10-11)") {
		t.Errorf("%d: the snapshot does not have what is held:\n%s", code, stdout)
	}
	pods, nodes := watch(t, w, "pods", "-A", "-w"), watch(t, w, "nodes", "-w")
	pods.line("reservation/training", "held", "2-3,10-11")
	nodes.line("n1", "0:0/6")
	over := w.reservations[0].DeepCopy()
	over.Status.Phase = koordinator.ReservationFailed
	w.tell(reservationsPath, "MODIFIED", over)
	pods.line("reservation/training", "gone")
	nodes.line("n1", "0:4/6")
	pods.end()
	nodes.end()
}

// TestOwnersOfReservations: a pod counts as an owner if its Binding or the Reservation's status
// names it. An annotation that any user can write does not count.
func TestOwnersOfReservations(t *testing.T) {
	w := reservedWorld(t)
	claims := func(name, of string) *corev1.Pod {
		pod := w.addPod(name, "n2", 1, 0)
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m") // it is not pinned
		pod.Labels = map[string]string{"of": of}
		pod.Annotations = map[string]string{wire.AllocatedAnnotation: fmt.Sprintf(`{"name":%q,"uid":"uid-%s"}`, of, of)}
		return pod
	}
	claims("claims", "inference")
	(&asked{args: []string{"nodes", "n2"}, want: []string{"inference     4 "}}).check(t, w)
	(&asked{args: []string{"explain", "claims"}, want: []string{"pod default/claims"}, never: []string{"uses: Reservation"}}).check(t, w)
	(&asked{args: []string{"explain", "comes"}, want: []string{"comes"}}).check(t, w)
	w.reservations[1].Status.CurrentOwners = []corev1.ObjectReference{{Namespace: "default", Name: "claims", UID: w.pods[len(w.pods)-1].UID}}
	(&asked{args: []string{"nodes", "n2"}, want: []string{"inference     3", "500m shared"}}).check(t, w)
	(&asked{args: []string{"explain", "claims"}, want: []string{"uses: Reservation inference"}}).check(t, w)
}
