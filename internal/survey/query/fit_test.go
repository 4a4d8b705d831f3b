package query

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/test/sim"
)

// playground opens the snapshot that the tests of the web page use.
func playground(t testing.TB) *survey.Cluster {
	t.Helper()
	f, err := os.Open("../../../test/web/testdata/cluster.berth")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := survey.Open(f, "playground")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wants returns a pod that does not exist in the cluster.
func wants(name, cpu, memory, gpus string) *corev1.Pod {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	if gpus != "0" {
		limits["nvidia.com/gpu"] = resource.MustParse(gpus)
	}
	p := pod(name, 1)
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: limits, Requests: limits}
	return p
}

// TestFitAgainstTwin: the number of copies that fit on a node equals the number that a kubelet
// admits one after the other. The kubelet starts from the node's report, and allocatable is
// recounted each time. The same is true for nodes with other settings.
func TestFitAgainstTwin(t *testing.T) {
	c := playground(t)
	s := surveyed(t, c)
	random := rand.New(rand.NewPCG(18, 1))
	copies, none := 0, 0
	for i := range 120 {
		p := wants(fmt.Sprint("p", i), fmt.Sprint(1+random.IntN(40)), fmt.Sprint(1+random.IntN(64), "Gi"), fmt.Sprint(random.IntN(3)))
		var o Setting
		if i%3 == 1 {
			o.Policy = []string{"none", "best-effort", "restricted", "single-numa-node"}[random.IntN(4)]
		}
		if i%3 == 2 {
			o.Empty = true
		}
		fitted, _, err := fitAll(t.Context(), c, s, []Wanted{{Pod: p, Replicas: 1}}, FitOptions{Limit: 50, Setting: o})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range fitted[0].Nodes {
			want := twinCopies(t, s, n.Node, p, &o, 50)
			if n.Copies != want {
				t.Errorf("pod %d %v on %s, %+v: %d copies, want %d (%s: %s)", i, p.Spec.Containers[0].Resources.Limits, n.Node, o, n.Copies, want, n.Answer.Answer, n.Next)
			}
			copies += want
			if want == 0 {
				none++
			}
		}
	}
	if copies < 500 || none < 50 {
		t.Errorf("%d copies, %d nodes with none: the test asks too little", copies, none)
	}
}

// twinCopies counts the copies with a kubelet.
func twinCopies(t *testing.T, s *survey.Survey, name string, p *corev1.Pod, o *Setting, limit int) int {
	n := s.States[name]
	if n.Object.Spec.Unschedulable {
		return 0
	}
	config := n.Spec().Config
	if o.Policy != "" {
		config.TopologyManagerPolicy = o.Policy
	}
	model := made.ModelOf(t, n.Spec().View, config)
	snap, bound := n.Report().Snapshot, slices.Clone(s.States[name].Bound)
	if o.Empty {
		devices := snap.Devices
		snap, bound = model.NewState().Snapshot(), nil
		snap.Devices = devices
	}
	state, err := model.StateOf(&snap)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := sim.Kubelet{State: state}
	ask, err := wire.ReadPod(p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range limit {
		amounts := wire.ReadAmounts(p)
		if lacking(amounts, nil, n.Object) != "" || short(amounts, nil, nodestate.RoomOf(n.Object, bound, nil)) != "" {
			return i
		}
		r := ask.Request
		r.UID = fmt.Sprint("twin-", i)
		if got := kubelet.Admit(&r); !got.Verdict.OK() {
			return i
		}
		bound = append(bound, p)
	}
	return limit
}

// TestFit places replicas, counts copies, and names the constraints that it does not check.
func TestFit(t *testing.T) {
	c := playground(t)
	one := func(p *corev1.Pod, replicas int, o FitOptions) Fitting {
		t.Helper()
		if o.Limit == 0 {
			o.Limit = 100
		}
		all, _, err := Fit(t.Context(), c, []Wanted{{Pod: p, Replicas: replicas}}, o)
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	f := one(wants("train", "12", "8Gi", "1"), 5, FitOptions{})
	if f.Placed != 3 || f.Copies != 3 || len(f.Berths) != 3 || f.Berths[0].Node != "gpu-2" || f.Berths[0].NUMANodes != "1" || !f.Berths[0].Exact {
		t.Errorf("of 5 replicas %d are placed, %d copies: %+v", f.Placed, f.Copies, f.Berths)
	}
	ports := wants("ports", "1", "1Gi", "0")
	ports.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	if f = one(ports, 9, FitOptions{}); f.Placed != 5 || !strings.Contains(f.Nodes[0].Next, "port 0.0.0.0:80/TCP") {
		t.Errorf("%d pods have port 80 of 5 nodes: %s", f.Placed, f.Nodes[0].Next)
	}
	tied := wants("tied", "1", "1Gi", "0")
	tied.Spec.NodeSelector = map[string]string{"pool": "gpu"}
	tied.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
	if f = one(tied, 1, FitOptions{}); !strings.HasPrefix(f.Berths[0].Node, "gpu-") || !strings.Contains(f.NotAsked[0], "data") {
		t.Errorf("a pod that selects the pool gpu: %+v, not asked %q", f.Berths, f.NotAsked)
	}
	held := wants("held", "2", "1Gi", "0")
	held.Annotations = map[string]string{wire.ReservationAffinityAnnotation: `{"name":"training"}`}
	if f = one(held, 1, FitOptions{}); !strings.Contains(strings.Join(f.NotAsked, "\n"), "where a Reservation holds") {
		t.Errorf("a pod that wants a Reservation's place: not asked %q", f.NotAsked)
	}
	held.Annotations[wire.ReservationAffinityAnnotation] = `{"nme":"training"}`
	if _, _, err := Fit(t.Context(), c, []Wanted{{Pod: held, Replicas: 1}}, FitOptions{}); err == nil || !strings.Contains(err.Error(), `unknown field "nme"`) {
		t.Errorf("a pod with an affinity that cannot be read: %v", err)
	}
	shared := wants("shared", "2", "1Gi", "0")
	shared.Spec.Containers[0].Resources.Limits = nil
	if f = one(shared, 2, FitOptions{}); f.Pinnable || f.Placed != 2 || len(f.Berths) != 0 || f.Copies == 0 {
		t.Errorf("a pod that pins nothing: %+v", f)
	}
	if f = one(wants("wide", "62", "8Gi", "4"), 1, FitOptions{Nodes: []string{"gpu-1"}, Setting: Setting{NUMAPerPackage: 2}}); f.Placed != 0 || f.Nodes[0].Refusal == nil {
		t.Errorf("62 CPUs on one of four NUMA nodes: %+v", f)
	}
	if f = one(wants("wide", "8", "8Gi", "0"), 1, FitOptions{Setting: Setting{NUMAPerPackage: 3}}); !strings.Contains(f.Groups[0].Message, "cannot be divided") && !strings.Contains(f.Groups[1].Message, "cannot be divided") {
		t.Errorf("three NUMA nodes in a package: %+v", f.Groups)
	}
	if _, _, err := Fit(t.Context(), c, nil, FitOptions{Nodes: []string{"nobody"}}); err == nil || !strings.Contains(err.Error(), "there is no Node nobody") {
		t.Errorf("a node that is not there: %v", err)
	}
}

// TestParseSetting reads all settings.
func TestParseSetting(t *testing.T) {
	s, err := ParseSetting([]string{"topologyManagerPolicy=restricted", "topologyManagerScope=pod", "cpuManagerPolicy=static", "numaNodesPerPackage=4", "reservedSystemCPUs=33,0-1"})
	if want := (Setting{Policy: "restricted", Scope: "pod", CPUManager: "static", NUMAPerPackage: 4, Reserved: "0-1,33"}); err != nil || s != want {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	for _, text := range []string{"", "x", "x=y", "topologyManagerPolicy=singel", "numaNodesPerPackage=0", "numaNodesPerPackage=65", "numaNodesPerPackage=two", "reservedSystemCPUs=", "reservedSystemCPUs=0-", "reservedSystemCPUs=0, 1", "reservedSystemCPUs=0-6:1/2"} {
		if _, err := ParseSetting([]string{text}); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestFitOfDevices: for a pod that requests devices, the alternatives that would fit are shown only
// for nodes with such devices.
func TestFitOfDevices(t *testing.T) {
	c := playground(t)
	big := wants("waits-for-gpu", "60", "8Gi", "1")
	big.Namespace = c.Namespace
	c.From.(*source.Snapshot).Pods = append(c.From.(*source.Snapshot).Pods, big)
	e, err := Explain(t.Context(), c, c.Namespace, big.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	if e.Fits == nil {
		t.Fatal("nothing smaller fits")
	}
	for _, name := range e.Fits.Nodes {
		if !strings.HasPrefix(name, "gpu-") {
			t.Errorf("node %s would fit %d CPUs, and has no GPU", name, e.Fits.CPUs)
		}
	}
}

// TestNamespaceOfManifests: a pod without a namespace gets the Cluster's, and a pod with a
// namespace keeps it.
func TestNamespaceOfManifests(t *testing.T) {
	for _, one := range []struct {
		names, asked, want string
	}{{"", "research", "research"}, {"", "telco", "telco"}, {"research", "telco", "research"}} {
		c := playground(t)
		c.Namespace, c.Terms.ExclusiveNamespaces = one.asked, wire.Namespaces{"research"}
		p := gpus("1")
		p.Namespace = one.names
		wanted := Wanted{Pod: p, Replicas: 1}
		f, err := newFitter(t.Context(), c, surveyed(t, c), &wanted)
		if err != nil || f.request.Rules.MayWithhold != (one.want == "research") {
			t.Errorf("%+v: %v, it may keep CPUs from others: %t", one, err, f.request.Rules.MayWithhold)
		}
		fits, _, err := Fit(t.Context(), c, []Wanted{wanted}, FitOptions{Limit: 1})
		if err != nil || fits[0].Namespace != one.want {
			t.Errorf("%+v: fits in %q, %v", one, fits[0].Namespace, err)
		}
		if room := makeRoomFor(t, c, p, RoomOptions{}); room.Wanted[0].Namespace != one.want || p.Namespace != one.names {
			t.Errorf("%+v: room for %+v", one, room.Wanted)
		}
	}
}

// TestBestEffortAnywhere: the answer for a pod with Volcano's policy best-effort depends on the
// scheduler's setting.
func TestBestEffortAnywhere(t *testing.T) {
	for _, anywhere := range []bool{false, true} {
		c := owning(t)
		c.Terms.BestEffortAnywhere = anywhere
		p := gpus("1")
		p.Annotations = map[string]string{wire.VolcanoPolicyAnnotation: "best-effort"}
		fits, _, err := Fit(t.Context(), c, []Wanted{{Pod: p, Replicas: 1}}, FitOptions{Limit: 1})
		if err != nil || (fits[0].Placed == 1) != anywhere {
			t.Errorf("anywhere %t: %d placed, %v; %v", anywhere, fits[0].Placed, fits[0].Groups, err)
		}
		if r := makeRoomFor(t, c, p, RoomOptions{}); (r.Outcome == "found") != anywhere {
			t.Errorf("anywhere %t: %s", anywhere, r.Outcome)
		}
	}
}
