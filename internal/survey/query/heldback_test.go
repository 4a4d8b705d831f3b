package query

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/survey/source"
)

// slimPod returns the pod as the map and snapshots have it.
func slimPod(p *corev1.Pod) *corev1.Pod {
	slim, _ := source.Slim(p) // it never fails
	return slim.(*corev1.Pod)
}

// claimed returns a pod with a volume of the claim data.
func claimed(name, message string) *corev1.Pod {
	p := pod(name, 2)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	if message != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
	}
	return p
}

// TestHeldByClaims: a claim holds a pod back if it is missing, lost or being deleted, or not bound
// for a known reason. A claim that waits for the pod's node (WaitForFirstConsumer) does not.
func TestHeldByClaims(t *testing.T) {
	class := "fast"
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
		change(c)
		return c
	}
	const fails = "0/2 nodes are available: "
	for name, c := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		code    int // of an error
		message string
		want    string // "" if the claim does not hold the pod back
	}{
		"missing":          {code: http.StatusNotFound, want: "there is no PersistentVolumeClaim data"},
		"may not be read":  {code: http.StatusForbidden},
		"bound":            {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName, c.Status.Phase = "pv", corev1.ClaimBound })},
		"lost":             {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }), want: "PersistentVolumeClaim data has lost its volume"},
		"on its way out":   {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: noon} }), want: "PersistentVolumeClaim data is being deleted"},
		"no StorageClass":  {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), want: "PersistentVolumeClaim data is not bound, and names no StorageClass"},
		"empty class":      {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new(string) }), want: "PersistentVolumeClaim data is not bound, and names no StorageClass"},
		"waits for a node": {claim: claim(func(*corev1.PersistentVolumeClaim) {})},
		"waits for a node, and the node is too small": {claim: claim(func(*corev1.PersistentVolumeClaim) {}), message: fails + "2 Insufficient cpu."},
		"waits for its volume": {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{selectedNode: "n1"} }),
			want: "PersistentVolumeClaim data is not bound (StorageClass fast): it waits for a volume on node n1"},
		"the scheduler says so": {claim: claim(func(*corev1.PersistentVolumeClaim) {}), message: fails + "pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			want: "PersistentVolumeClaim data is not bound (StorageClass fast): pod has unbound immediate PersistentVolumeClaims"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				w.Header().Set("Content-Type", "application/json")
				if c.claim == nil {
					w.WriteHeader(c.code)
					fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, c.code, map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden"}[c.code])
					return
				}
				_ = json.NewEncoder(w).Encode(c.claim)
			}))
			defer server.Close()
			a, err := source.Connect(source.Options{Config: &rest.Config{Host: server.URL}})
			if err != nil {
				t.Fatal(err)
			}
			held := heldByClaims(t.Context(), a, slimPod(claimed("p", c.message))) // as the map has it
			if asked != "/api/v1/namespaces/default/persistentvolumeclaims/data" {
				t.Errorf("asked for %q", asked)
			}
			switch {
			case c.want == "" && held != nil:
				t.Errorf("held back: %+v", held)
			case c.want != "" && (held == nil || held.By != byVolumes || held.Message != c.want || held.Advice == ""):
				t.Errorf("%+v, want %q", held, c.want)
			}
		})
	}
}

// TestEphemeralClaims: the advice does not say to create a claim that a controller creates.
func TestEphemeralClaims(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	a, err := source.Connect(source.Options{Config: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	p := pod("p", 2)
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	held := heldByClaims(t.Context(), a, slimPod(p))
	if held == nil || held.Message != "there is no PersistentVolumeClaim p-scratch yet; kube-controller-manager creates it for volume scratch" || strings.Contains(held.Advice, "create it") {
		t.Errorf("%+v", held)
	}
}

// TestHeldBackOnTheMap: the reduced pods of the map and of snapshots still show what holds them
// back.
func TestHeldBackOnTheMap(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("n1"))
	gated, spread, says := pod("gated", 2), pod("spread", 2), claimed("says", "0/1 nodes are available: 1 moon is in the wrong house.")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	spread.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}
	for _, p := range []*corev1.Pod{gated, spread, says} {
		w.Pods = append(w.Pods, slimPod(p))
	}
	for name, want := range map[string]string{"gated": "held back by SchedulingGates", "spread": "held back by PodTopologySpread", "says": "held back by another plugin"} {
		e, err := Explain(t.Context(), w.cluster(), "", name, "")
		w.Must(err)
		if got := WaitsFor(e); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if other := pod("other", 2); ShapeOf(other) == ShapeOf(w.Pods[1]) {
		t.Error("a pod with a spread constraint is answered as one without")
	}
}

// TestWaitsForRoom: moving other pods could help only a pod that no other plugin holds back.
func TestWaitsForRoom(t *testing.T) {
	const fails = "0/2 nodes are available: "
	for message, want := range map[string]bool{
		"": false, fails + "2 Insufficient example.com/gpu.": true, fails + "pod has unbound immediate PersistentVolumeClaims.": false, fails + "2 moon is in the wrong house.": false,
	} {
		if got := WaitsForRoom(claimed("p", message)); got != want {
			t.Errorf("%q: %v, want %v", message, got, want)
		}
	}
}

// TestSlimPodsKeepTyingVolumes: a snapshot names the same volumes as a live cluster.
func TestSlimPodsKeepTyingVolumes(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		{Name: "ephemeral", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "inline", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"secret": "x"}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
	}}}
	slim := slimPod(pod)
	if got, want := TyingVolumes(slim), TyingVolumes(pod); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if c := slim.Spec.Volumes[2].CSI; c == nil || c.VolumeAttributes != nil {
		t.Errorf("the inline volume is %+v", c)
	}
}
