package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// noon is the time of all requests in these tests, by the server's clock.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a stand-in for an API server, with its objects.
type world struct {
	t          testing.TB
	nodes      []corev1.Node
	pods       []corev1.Pod
	leases     []coordinationv1.Lease
	topologies []map[string]any
	events     []corev1.Event
	classes    []resourcev1.DeviceClass
	// slices and claims belong to Dynamic Resource Allocation, which is served if there are
	// classes.
	slices    []resourcev1.ResourceSlice
	templates []resourcev1.ResourceClaimTemplate
	claims    []resourcev1.ResourceClaim
	// groups are PodGroups of Volcano in namespace default; nil if the kind is not served.
	groups []map[string]any
	// reservations are Koordinator's; nil if the kind is not served.
	reservations []koordinator.Reservation
	// elections are Leases of schedulers, by path.
	elections map[string]*coordinationv1.Lease
	// uninstalled means that the kind NodeTopology is not served.
	uninstalled bool
	// forbidden are paths that may not be read.
	forbidden map[string]bool
	// mayRead is how often a path may be read before it is forbidden.
	mayRead map[string]int
	// pageOf is the maximum number of objects in a page; 0 means no limit.
	pageOf int
	// expires means that every page but the first has expired.
	expires bool
	// unwatchable are paths that may be read but not watched.
	unwatchable map[string]bool
	// brief means that a watch ends after each event.
	brief bool

	mu sync.Mutex
	// requests are the requests so far.
	requests []string
	// told has the events of all watches, in order. news is closed and replaced when there are
	// more.
	told []event
	news chan struct{}
}

// kubeconfig starts the server and returns a kubeconfig file for it.
func (w *world) kubeconfig() string {
	s := httptest.NewServer(w)
	w.t.Cleanup(s.Close)
	return kubeconfigFor(w.t, s.URL)
}

func kubeconfigFor(t testing.TB, url string) string {
	path := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
users: [{name: u, user: {token: t}}], clusters: [{name: c, cluster: {server: "` + url + `"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Date", noon.Format(http.TimeFormat))
	if r.URL.Query().Get("watch") != "" {
		w.serveWatch(out, r)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	out.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case w.forbidden[path] || w.spent(path):
		w.refuse(out, http.StatusForbidden, metav1.StatusReasonForbidden)
	case path == "/api/v1/nodes":
		serve(w, out, r, "NodeList", w.nodes, func(n *corev1.Node) [2]string { return [2]string{n.Name} })
	case path == "/api/v1/pods" || path == "/api/v1/namespaces/default/pods":
		serve(w, out, r, "PodList", w.pods, func(p *corev1.Pod) [2]string { return [2]string{p.Name, p.Spec.NodeName} })
	case path == "/api/v1/namespaces/default/events":
		serve(w, out, r, "EventList", w.events, func(e *corev1.Event) [2]string { return [2]string{e.Name} })
	case path == "/api/v1/namespaces":
		_ = json.NewEncoder(out).Encode(corev1.NamespaceList{Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "training"}}}})
	case w.elections[path] != nil:
		_ = json.NewEncoder(out).Encode(w.elections[path])
	case strings.HasPrefix(path, "/api/v1/namespaces/default/pods/"):
		w.servePod(out, strings.TrimPrefix(path, "/api/v1/namespaces/default/pods/"))
	case path == "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases":
		serve(w, out, r, "LeaseList", w.leases, func(l *coordinationv1.Lease) [2]string { return [2]string{l.Name} })
	case path == "/apis/resource.k8s.io/v1/deviceclasses" && w.classes != nil:
		serve(w, out, r, "DeviceClassList", w.classes, func(c *resourcev1.DeviceClass) [2]string { return [2]string{c.Name} })
	case path == "/apis/resource.k8s.io/v1/resourceslices" && w.classes != nil:
		serve(w, out, r, "ResourceSliceList", w.slices, func(s *resourcev1.ResourceSlice) [2]string { return [2]string{s.Name} })
	case w.classes != nil && (path == "/apis/resource.k8s.io/v1/resourceclaims" || path == "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"):
		serve(w, out, r, "ResourceClaimList", w.claims, func(c *resourcev1.ResourceClaim) [2]string { return [2]string{c.Name} })
	case path == "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates" && w.classes != nil:
		serve(w, out, r, "ResourceClaimTemplateList", w.templates, func(t *resourcev1.ResourceClaimTemplate) [2]string { return [2]string{t.Name} })
	case w.groups != nil && (path == "/apis/scheduling.volcano.sh/v1beta1/podgroups" || path == "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"):
		serve(w, out, r, "PodGroupList", w.groups, func(u *map[string]any) [2]string {
			return [2]string{(*u)["metadata"].(map[string]any)["name"].(string)}
		})
	case w.reservations != nil && path == "/apis/scheduling.koordinator.sh/v1alpha1/reservations":
		serve(w, out, r, "ReservationList", w.reservations, func(o *koordinator.Reservation) [2]string { return [2]string{o.Name} })
	case path == "/apis/berth.dev/v1alpha1/nodetopologies" && !w.uninstalled:
		serve(w, out, r, "NodeTopologyList", w.topologies, func(u *map[string]any) [2]string {
			return [2]string{(*u)["metadata"].(map[string]any)["name"].(string)}
		})
	default:
		w.refuse(out, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

func (w *world) refuse(out http.ResponseWriter, code int, reason metav1.StatusReason) {
	out.WriteHeader(code)
	_ = json.NewEncoder(out).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "refused by the test"})
}

func (w *world) servePod(out http.ResponseWriter, name string) {
	for i := range w.pods {
		if w.pods[i].Name == name {
			_ = json.NewEncoder(out).Encode(&w.pods[i])
			return
		}
	}
	w.refuse(out, http.StatusNotFound, metav1.StatusReasonNotFound)
}

// serve answers with a list of the objects that match the field selector. Fields are name and node.
func serve[T any](w *world, out http.ResponseWriter, r *http.Request, kind string, all []T, fields func(*T) [2]string) {
	var left []T
	name, value, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	for i := range all {
		f := fields(&all[i])
		switch {
		case name == "metadata.name" && f[0] != value, name == "spec.nodeName" && f[1] != value, name == "spec.nodeName!" && f[1] == value:
		default:
			left = append(left, all[i])
		}
	}
	meta := map[string]any{"resourceVersion": strconv.Itoa(firstVersion + len(w.told))}
	if from := r.URL.Query().Get("continue"); from != "" {
		if w.expires {
			w.refuse(out, http.StatusGone, metav1.StatusReasonExpired)
			return
		}
		left = left[len(from):]
	}
	if size := w.pageOf; size > 0 && r.URL.Query().Get("limit") != "" && len(left) > size {
		meta["continue"] = strings.Repeat("x", len(r.URL.Query().Get("continue"))+size)
		left = left[:size]
	}
	version := map[string]string{"NodeTopologyList": "berth.dev/v1alpha1", "LeaseList": "coordination.k8s.io/v1", "ReservationList": "scheduling.koordinator.sh/v1alpha1"}[kind]
	if version == "" {
		version = "v1"
	}
	_ = json.NewEncoder(out).Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": meta, "items": left})
}

// addNode adds a node whose agent sent its last heartbeat some seconds ago.
func (w *world) addNode(name string, ago time.Duration) *corev1.Node {
	w.nodes = append(w.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}})
	// The agent's own clock is wrong by a day, which must have no effect.
	renewed := metav1.NewMicroTime(noon.Add(-24 * time.Hour))
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(name), Namespace: v1alpha1.HeartbeatNamespace, ManagedFields: managed(noon.Add(-ago))}}
	lease.Spec.RenewTime = &renewed
	w.leases = append(w.leases, lease)
	return &w.nodes[len(w.nodes)-1]
}

func managed(t time.Time) []metav1.ManagedFieldsEntry {
	at := metav1.NewTime(t)
	return []metav1.ManagedFieldsEntry{{Manager: "berth-agent", Operation: metav1.ManagedFieldsOperationApply, Time: &at}}
}

// addTopology publishes a report after spoil has changed it.
func (w *world) addTopology(n *wire.Node, spoil func(*v1alpha1.NodeTopology)) {
	w.t.Helper()
	nt, err := wire.WriteNodeTopology(n)
	if err != nil {
		w.t.Fatal(err)
	}
	nt.ManagedFields = managed(noon.Add(-5 * time.Minute))
	if spoil != nil {
		spoil(nt)
	}
	data, err := json.Marshal(nt)
	if err != nil {
		w.t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		w.t.Fatal(err)
	}
	w.topologies = append(w.topologies, object)
}

// twoSockets is a machine of 2 NUMA nodes with 4 cores of 2 threads.
const twoSockets = "package:2 numa:1 core:4 pu:2 mem:16Gi"

// reportOf returns the report of a node that admitted the requests one after another. Its policy is
// best-effort on n2, and restricted on others.
func reportOf(t testing.TB, name string, admitted ...*placement.Request) *wire.Node {
	t.Helper()
	m := shapes.Machine(twoSockets)
	view := made.View(t, m)
	n := &wire.Node{Name: name, Spec: wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3", Config: placement.Config{
		Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0,8", MemoryManagerPolicy: "Static", TopologyManagerPolicy: "restricted",
		ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}},
	}}}
	if name == "n2" {
		n.Spec.Config.TopologyManagerPolicy = "best-effort"
	}
	model := made.ModelOf(t, view, n.Spec.Config)
	k := sim.NewKubelet(model)
	s := k.State
	s.SetPool(placement.DevicePool{Resource: "example.com/gpu", Preference: placement.SortedPreference, Devices: []placement.Device{
		{ID: "g0", NUMA: topology.NewNUMASet(0), HasTopology: true}, {ID: "g1", NUMA: topology.NewNUMASet(1), HasTopology: true},
		{ID: "g2", NUMA: topology.NewNUMASet(1), HasTopology: true, Unhealthy: true}, {ID: "gx"},
	}})
	n.Report = wire.Report{Sequence: 7, Observed: noon.Add(-5 * time.Minute), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent, LastTransitionTime: metav1.NewTime(noon)}}}
	for _, r := range admitted {
		if a := k.Admit(r); !a.Verdict.OK() {
			t.Fatalf("%s on %s: %s", r.UID, name, a.Verdict.Detail)
		}
		n.Report.Pods = append(n.Report.Pods, wire.ReportedPod{Namespace: "default", Name: strings.TrimPrefix(r.UID, "uid-")})
	}
	n.Report.Snapshot = s.Snapshot()
	return n
}

// addPod adds a pod in namespace default that requests CPUs, 1 GiB of memory and devices.
func (w *world) addPod(name, node string, cpus, gpus int64) *corev1.Pod {
	limits := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
	if gpus > 0 {
		limits["example.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	w.pods = append(w.pods, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(len(w.pods)-100) * time.Second))},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: "berth-scheduler", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSGuaranteed},
	})
	p := &w.pods[len(w.pods)-1]
	if node == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}} // a scheduler has tried it
	}
	return p
}

func requestOf(t testing.TB, pod *corev1.Pod) *placement.Request {
	t.Helper()
	ask, err := wire.ReadPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &ask.Request
}

// annotate adds the placement that a node would give the pod as an annotation.
func annotate(t testing.TB, pod *corev1.Pod, n *wire.Node, seq uint64, certainty wire.Certainty) {
	t.Helper()
	i := 0
	for i < len(n.Report.Snapshot.Pods) && n.Report.Snapshot.Pods[i].UID != string(pod.UID) {
		i++
	}
	d := placement.Decision{UID: string(pod.UID)}
	for _, c := range n.Report.Snapshot.Pods[i].Containers {
		d.Containers = append(d.Containers, placement.ContainerDecision{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Devices: c.Devices, Hint: placement.Hint{Any: true}})
	}
	text, err := wire.WritePlacement(&wire.Placement{Sequence: seq, Report: 6, Certainty: certainty, Guarantee: wire.GuaranteeFull, Decision: d})
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations = map[string]string{wire.PlacementAnnotation: text}
}

// busyWorld has nodes and pods of every kind.
func busyWorld(t testing.TB) *world {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 32) // pointers to pods are used below
	train, late := w.addPod("train", "n1", 4, 1), w.addPod("late", "n1", 2, 0)
	n1 := reportOf(t, "n1", requestOf(t, train))
	annotate(t, train, n1, 1, wire.Exact)
	annotate(t, late, reportOf(t, "n1", requestOf(t, train), requestOf(t, late)), 2, wire.VerdictOnly)
	w.addNode("n1", 3*time.Second)
	w.addTopology(n1, nil)

	wide := w.addPod("wide", "n2", 12, 0)
	w.addNode("n2", 2*time.Second)
	w.addTopology(reportOf(t, "n2", requestOf(t, wide)), nil)

	forged := w.addPod("forged", "n3", 2, 0)
	forged.Annotations = map[string]string{wire.PlacementAnnotation: `{"v":1,"seq":1,"uid":"uid-train\u001b[2J","certainty":"exact","guarantee":"full","containers":[]}`}
	w.addNode("n3", 2*time.Second)
	w.addTopology(reportOf(t, "n3"), nil)

	w.addNode("no-report", 0)
	w.addNode("silent", 75*time.Second)
	w.addTopology(reportOf(t, "silent"), nil)
	w.addNode("malformed", 1)
	w.addTopology(reportOf(t, "malformed"), func(nt *v1alpha1.NodeTopology) { nt.Spec.Machine = "package:two" })
	w.addNode("misconfigured", 1)
	w.addTopology(reportOf(t, "misconfigured"), func(nt *v1alpha1.NodeTopology) { nt.Spec.TopologyManager.Policy = "restrictd" })
	w.addNode("unready", 1)
	w.addTopology(reportOf(t, "unready"), func(nt *v1alpha1.NodeTopology) {
		nt.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnreadable, Message: "cpu_manager_state: checksum 1: want 2"}}
	})
	w.addNode("wrong-type", 1)
	w.topologies = append(w.topologies, map[string]any{"apiVersion": "berth.dev/v1alpha1", "kind": "NodeTopology", "metadata": map[string]any{"name": "wrong-type"}, "spec": []any{"x"}})
	w.addTopology(reportOf(t, "stray"), nil)
	w.addNode("drifted", 1)
	w.addTopology(reportOf(t, "drifted"), func(nt *v1alpha1.NodeTopology) {
		nt.Status.Conditions = append(nt.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionKubeletCurrent, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonConfigurationChanged, Message: "cpuManagerPolicy is none, static when the kubelet started", LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))})
	})
	w.addNode("down", 1).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown",
		Message: "Kubelet stopped posting node status.", LastTransitionTime: metav1.NewTime(noon.Add(-3 * time.Minute))}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasDiskPressure"}}
	w.addTopology(reportOf(t, "down"), nil)
	w.addNode("flooded", 1)
	w.addTopology(reportOf(t, "flooded"), nil)
	for i := range 7 {
		w.addPod(fmt.Sprint("stranger", i), "flooded", 1, 0).Namespace = "others"
	}
	w.addNode("cordoned", 1).Spec.Unschedulable = true
	w.addTopology(reportOf(t, "cordoned"), nil)

	w.addPod("big", "", 10, 0).Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/10 nodes are available"}}
	w.addPod("gpus", "", 2, 2)
	w.addPod("small", "", 2, 0)
	w.addPod("plain", "", 1, 0).Status.QOSClass = corev1.PodQOSBurstable
	failed := w.addPod("failed", "n2", 4, 0)
	failed.Status = corev1.PodStatus{Phase: corev1.PodFailed, QOSClass: corev1.PodQOSGuaranteed, Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	return w
}

// spent reports whether a path has been read as often as it may be. The caller holds the lock.
func (w *world) spent(path string) bool {
	left, limited := w.mayRead[path]
	if limited && left > 0 {
		w.mayRead[path]--
	}
	return limited && left == 0
}
