package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/enforce"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology/shapes"
)

// newObeyingWorld returns a node on which Berth decides. The managers of its kubelet are none.
func newObeyingWorld(t *testing.T) *world {
	w := newWorld(t)
	w.m.around.authority = v1alpha1.AuthorityBerth
	w.config = &kubeletv1beta1.KubeletConfiguration{ReservedSystemCPUs: "0"}
	w.files.CPU = []byte(`{"policyName":"none","defaultCpuSet":"","checksum":0}`)
	w.obeys(&obeyed{})
	return w
}

func (w *world) obeys(o *obeyed) { w.m.running = func() *obeyed { return o } }

// ready returns the Ready condition of the last report, as "status reason: message".
func (w *world) ready() string {
	n := w.last()
	c := n.Report.Ready()
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// TestObeyingReport: running pods are reported with the resources of their decisions, until their
// sandboxes have stopped. The shared CPUs change accordingly.
func TestObeyingReport(t *testing.T) {
	w := newObeyingWorld(t)
	w.see("a", corev1.PodRunning)
	w.see("b", corev1.PodRunning)
	w.admitted("a", "b")
	w.obeys(&obeyed{pods: map[string][]placement.ContainerAllocation{
		"a": {{Name: "main", CPUs: shapes.CPUs("2-3"), Exclusive: joint.ExclusiveCore, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 1 << 30}}}},
		"b": {{Name: "main", Shares: []placement.CPUShare{{NUMA: 1, MilliCPU: 1500}}}},
		"x": {{Name: "main", CPUs: shapes.CPUs("5")}},
	}, generations: map[string]uint64{"a": 3, "b": 0}})
	w.settle()
	nt := w.writes[len(w.writes)-1]
	var lines []string
	for i := range nt.Status.Pods {
		lines = append(lines, nt.Status.Pods[i].String())
	}
	want := "x state=Unknown main;cpus=5\na pod=ns/pod-a gen=3 main;cpus=2-3;exclusive=core;mem=memory@0=1Gi\nb pod=ns/pod-b main;shares=1:1500"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("reported\n%s\nwant\n%s", got, want)
	}
	if nt.Spec.Authority != v1alpha1.AuthorityBerth || nt.Status.SharedCPUs != "0-1,4,6-7" || !strings.HasPrefix(w.ready(), "True") {
		t.Errorf("authority %s, shared %s, %s", nt.Spec.Authority, nt.Status.SharedCPUs, w.ready())
	}
	// A pod that has ended keeps its CPUs until its sandbox has stopped.
	w.see("a", corev1.PodSucceeded)
	w.settle()
	if got := w.last().Report.Snapshot.Pods; len(got) != 3 || got[1].UID != "a" {
		t.Errorf("%+v, want a listed until its sandbox has stopped", got)
	}
	w.obeys(&obeyed{})
	w.settle()
	if got := w.last().Report.Snapshot.Pods; len(got) != 1 || got[0].UID != "b" {
		t.Errorf("%+v, want b alone", got)
	}
}

// TestObeyingNodeIsRefused: the condition names the reason why decisions are not carried out.
func TestObeyingNodeIsRefused(t *testing.T) {
	owner := func(w *world) { w.m.pods.see(w.rival("o", 0), w.clock) }
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"static CPU manager": {func(w *world) {
			w.config.CPUManagerPolicy = "static"
			w.cpus("0-7", nil)
		}, "False Unsupported: cpuManagerPolicy: \"static\": want none on a node with authority berth: otherwise Berth and the kubelet would both assign CPUs"},
		"koordlet": {owner, "False Contradiction: pod koordinator-system/pod-o runs koordlet, which sets the CPUs of containers as Berth does"},
		"no runtime": {func(w *world) { w.obeys(&obeyed{problem: errors.New("the socket is gone")}) },
			"False NotEnforced: the socket is gone"},
		"no CPU reserved": {func(w *world) { w.config.ReservedSystemCPUs = "" }, "False Unsupported: kubeReserved[cpu]"},
		"two pods on one CPU": {func(w *world) {
			one := []placement.ContainerAllocation{{Name: "main", CPUs: shapes.CPUs("2")}}
			w.obeys(&obeyed{pods: map[string][]placement.ContainerAllocation{"a": one, "b": one}})
		}, "False Contradiction: "},
		"placed on a guess": {func(w *world) {
			w.placed("p", "2-3", wire.Placement{Certainty: wire.VerdictOnly})
			w.admitted("p")
		}, "False Contradiction: the agent carries out decisions here, but pod ns/pod-p was placed when the kubelet decided, and does not run on the predicted CPUs 2-3: drain the node"},
		"placed on a guess that has come true": {func(w *world) {
			w.placed("p", "2-3", wire.Placement{Certainty: wire.VerdictOnly})
			w.admitted("p")
			w.obeys(&obeyed{pods: map[string][]placement.ContainerAllocation{"p": {{Name: "main", CPUs: shapes.CPUs("2-3")}}}})
		}, "True"},
		"placed on what it has": {func(w *world) {
			w.placed("p", "2-3", wire.Placement{Certainty: wire.Exact})
			w.admitted("p")
		}, "True"},
		"authority was berth": {func(w *world) {
			w.m.around.authority = v1alpha1.AuthorityKubelet
			w.placed("p", "2-3", wire.Placement{Authority: placement.AuthorityBerth})
			w.admitted("p")
		}, "False Contradiction: the kubelet decides here, but pod ns/pod-p was placed when Berth decided: drain the node"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newObeyingWorld(t)
			c.change(w)
			w.steps(600)
			if got := w.ready(); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAuthorityByLabel: the node's label decides, and a change of the label is noticed.
func TestAuthorityByLabel(t *testing.T) {
	w := newObeyingWorld(t)
	w.m.around.authority = ByLabel
	authority := func(label string) v1alpha1.Authority {
		w.node = w.node.DeepCopy()
		w.node.Labels = map[string]string{AuthorityLabel: label}
		w.settle()
		return w.writes[len(w.writes)-1].Spec.Authority
	}
	for label, want := range map[string]v1alpha1.Authority{"": v1alpha1.AuthorityKubelet, "berth": v1alpha1.AuthorityBerth, "kubelet": v1alpha1.AuthorityKubelet} {
		if got := authority(label); got != want || !strings.HasPrefix(w.ready(), "True") {
			t.Errorf("%q: authority %s, %s", label, got, w.ready())
		}
	}
	authority("brth")
	if got := w.ready(); !strings.Contains(got, `metadata.labels[berth.dev/authority]: "brth": want kubelet or berth`) {
		t.Errorf("%s", got)
	}
	table := placement.MemoryTable{NUMA: 0, Resources: []placement.MemoryAmounts{{Resource: "memory"}}}
	less := &kubeletstate.MemoryState{Nodes: []kubeletstate.MemoryNode{{MemoryTable: table, Totals: map[string]uint64{"memory": 1 << 30}}}}
	switch p, err := w.m.around.platform.withMemoryOf(less); {
	case err != nil || p.spec.View.Nodes[0].MemoryBytes != 1<<30:
		t.Fatalf("%v, %+v, want the memory that the kubelet saw", err, p.spec.View)
	case p.problem == nil || p.problem != w.m.around.platform.problem:
		t.Errorf("with the memory that the kubelet saw the problem is %v", p.problem)
	}
}

// TestNodeWords: the node's labels of Koordinator apply to pods without an annotation. An unknown
// value makes the node unusable, and the message names it.
func TestNodeWords(t *testing.T) {
	w := newObeyingWorld(t)
	w.node.Labels = map[string]string{"node.koordinator.sh/numa-topology-policy": "SingleNUMANode", "node.koordinator.sh/numa-allocate-strategy": "LeastAllocated",
		"node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly"}
	w.settle()
	d := w.writes[len(w.writes)-1].Spec.Defaults
	if d == nil || *d != (v1alpha1.Defaults{Policy: "single-numa-node", Scope: "pod", CPUs: "full-cores", Strategy: "LeastAllocated"}) {
		t.Errorf("defaults %+v", d)
	}
	n := w.last()
	if c := n.Spec.Config; c.Default.Policy != placement.PolicySingleNUMANode || c.Default.Scope != placement.PodScope || c.Strategy != joint.LeastAllocated || c.Default.CPUs.Bind != joint.FullCores {
		t.Errorf("read back as %+v", n.Spec.Config)
	}
	w.node = w.node.DeepCopy()
	w.node.Labels["node.koordinator.sh/numa-topology-policy"] = "restrictd"
	w.settle()
	if got := w.ready(); !strings.HasPrefix(got, "False Unsupported: Node n1: metadata.labels[node.koordinator.sh/numa-topology-policy]: \"restrictd\"") {
		t.Error(got)
	}
}

// TestReadBack compares decisions with the cgroups.
func TestReadBack(t *testing.T) {
	decided := &placement.ContainerDecision{Name: "main", CPUs: shapes.CPUs("2-3"), Shares: nil}
	pinned := enforce.Set{CPUs: shapes.CPUs("2-3"), Pinned: true}
	cgroups := func(cpus string) fs.FS {
		return fstest.MapFS{"pods/c/cpuset.cpus.effective": {Data: []byte(cpus + "\n")}, "pods/c/cpuset.mems.effective": {Data: []byte("0-1\n")}}
	}
	for name, c := range map[string]struct {
		held    enforce.Booked
		cgroups fs.FS
		cpus    string // as reported; "-" for a container without a decision
		astray  string
	}{
		"as decided":      {enforce.Booked{Running: true, Set: pinned}, cgroups("2-3"), "2-3", ""},
		"written by hand": {enforce.Booked{Running: true, Set: pinned}, cgroups("2-5"), "2-5", `ns/p/main runs on CPUs "2-5" instead of the decided CPUs "2-3"`},
		"unreadable":      {enforce.Booked{Running: true, Set: pinned}, cgroups("two"), "2-3", "ns/p/main cannot be read back"},
		"vanished":        {enforce.Booked{Running: true, Set: pinned}, fstest.MapFS{}, "2-3", ""},
		"just beginning":  {enforce.Booked{Running: true, Set: pinned}, cgroups("0-7"), "2-3", ""},
		"between lives":   {enforce.Booked{Set: pinned}, cgroups("2-5"), "2-3", ""},
		"confined":        {enforce.Booked{Running: true, Set: enforce.Set{CPUs: shapes.CPUs("0-1")}, Why: "CPUs 2 are held by ns/q/main"}, cgroups("0-1"), "", "ns/p/main CPUs 2 are held by ns/q/main"},
	} {
		t.Run(name, func(t *testing.T) {
			c.held.Settled = name != "just beginning"
			c.held.Container = enforce.Container{ID: "i", UID: "u", Short: "main", Name: "ns/p/main", Decision: decided}
			o := obeyedBy(enforce.Sight{Containers: []enforce.Booked{c.held}, Cgroups: map[string]string{"i": "/pods/c"}}, c.cgroups, absence{map[string]time.Time{}, time.Time{}})
			if got := o.pods["u"][0].CPUs.String(); got != c.cpus {
				t.Errorf("CPUs %q, want %q", got, c.cpus)
			}
			if got := strings.Join(o.astray, "; "); !strings.HasPrefix(got, c.astray) || (got == "") != (c.astray == "") {
				t.Errorf("astray: %q, want %q", got, c.astray)
			}
		})
	}
	o := obeyedBy(enforce.Sight{Gone: errors.New("no socket"), Waiting: []enforce.Complaint{{Container: "ns/w/main", Why: "CPUs 2 are held by ns/p/main"}}}, fstest.MapFS{}, absence{})
	if o.problem == nil || len(o.astray) != 1 || !strings.Contains(o.astray[0], "does not start") {
		t.Errorf("%+v", o)
	}
}

// TestVanishedCgroupIsAstray: the runtime reports a container as running that has had no cgroup for
// some time. It cannot be read back, so it possibly does not run as decided.
func TestVanishedCgroupIsAstray(t *testing.T) {
	held := enforce.Booked{Running: true, Settled: true, Set: enforce.Set{CPUs: shapes.CPUs("2-3"), Pinned: true},
		Container: enforce.Container{ID: "i", UID: "u", Short: "main", Name: "ns/p/main"}}
	a := absence{map[string]time.Time{}, time.Unix(1000, 0)}
	there := fstest.MapFS{"pods/c/cpuset.cpus.effective": {Data: []byte("2-3")}, "pods/c/cpuset.mems.effective": {Data: []byte("0")}}
	look := func(cgroups fs.FS, after time.Duration, containers ...enforce.Booked) string {
		a.now = a.now.Add(after)
		paths := map[string]string{}
		for _, c := range containers {
			paths[c.ID] = "/pods/c"
		}
		return strings.Join(obeyedBy(enforce.Sight{Containers: containers, Cgroups: paths}, cgroups, a).astray, "; ")
	}
	const astray = "ns/p/main cannot be read back: the runtime reports it as running, but there is no cgroup pods/c"
	for i, step := range []struct {
		cgroups fs.FS
		after   time.Duration
		want    string
	}{
		{fstest.MapFS{}, 0, ""}, {fstest.MapFS{}, absenceLimit - 1, ""}, {fstest.MapFS{}, 1, astray}, {fstest.MapFS{}, time.Hour, astray},
		{there, 0, ""}, {fstest.MapFS{}, time.Hour, ""}, {fstest.MapFS{}, absenceLimit, astray},
	} {
		if got := look(step.cgroups, step.after, held); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if look(there, 0); len(a.since) > 0 {
		t.Errorf("%v is remembered of containers that are gone", a.since)
	}
}

// TestCgroupsAreRequired: without cgroup v2 and its cpusets, containers could not be read back.
func TestCgroupsAreRequired(t *testing.T) {
	for text, ok := range map[string]bool{"cpuset cpu memory\n": true, "cpu memory": false, "": false, "cpusets": false} {
		if err := hasCpusets(fstest.MapFS{"cgroup.controllers": {Data: []byte(text)}}); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := hasCpusets(fstest.MapFS{}); err == nil {
		t.Error("cgroup v1 passes")
	}
	dir := t.TempDir()
	opts := Options{Authority: v1alpha1.AuthorityBerth, Enforce: EnforceOptions{Cgroups: dir}}
	e := &enforcer{opts: &opts, changed: func() {}}
	e.serve(t.Context())
	if o := e.look(); o.problem == nil || !strings.Contains(o.problem.Error(), "--cgroup-root "+dir+": ") {
		t.Errorf("%v, want the flag, its value and what would be right", o.problem)
	}
}

// TestLabelsAreRemembered: an agent that uses the node's labels carries decisions out even without
// the API server, with the last labels that it saw. It does not trust a file that it did not write.
func TestLabelsAreRemembered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var log strings.Builder
	var node *corev1.Node
	start := func() *enforcer {
		opts := &Options{Node: "n1", Authority: ByLabel, Enforcer: EnforcerByLabel, StateDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}
		return &enforcer{opts: opts, node: func() *corev1.Node { return node }, changed: func() {}}
	}
	want := func(what string, want bool, known bool) {
		t.Helper()
		if got, err := start().ours(); got != want || (err == nil) != known {
			t.Errorf("%s: %t, %v", what, got, err)
		}
	}
	labels := func(authority, enforcer string) {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{AuthorityLabel: authority, EnforcerLabel: enforcer}}}
	}
	want("nothing is known", false, false)
	labels("berth", "")
	want("Berth decides", true, true)
	node = nil
	want("Berth decided", true, true)
	labels("brth", "")
	want("a word nobody knows", false, false)
	node = nil
	want("it is not remembered", true, true)
	labels("berth", "koordlet")
	want("koordlet carries out", false, true)
	node = nil
	want("koordlet carried out", false, true)
	labels("", "")
	want("the kubelet decides", false, true)
	node = nil
	want("the kubelet decided", false, true)
	name := filepath.Join(dir, rememberedFile.name)
	for what, text := range map[string]string{
		"another node": `{"node":"n2","authority":"berth"}`, "no such word": `{"node":"n1","authority":"root"}`, "no JSON": "berth", "nothing": "",
		"too long": `{"node":"n1","authority":"berth"}` + strings.Repeat(" ", int(rememberedFile.limit)), "more": `{"node":"n1","authority":"berth","image":"x"}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want(what, false, false)
		if _, err := recall(dir, "n1"); err == nil || strings.Contains(err.Error(), "<nil>") {
			t.Errorf("%s: got error %v", what, err)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", name); err != nil {
		t.Fatal(err)
	}
	want("a link", false, false)
	if !strings.Contains(log.String(), "want a regular file") {
		t.Errorf("the log does not say why: %s", log.String())
	}
	labels("berth", "")
	want("Berth decides again", true, true)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v, want one file", left, err)
	}
}

// TestBooksAreRenewed: when a kubelet starts again with other reserved CPUs, the agent uses these
// without a restart.
func TestBooksAreRenewed(t *testing.T) {
	w := newObeyingWorld(t)
	var told []string
	w.m.renew = func(p *platform) { told = append(told, p.model.ReservedCPUs().String()) }
	w.settle()
	w.config = &kubeletv1beta1.KubeletConfiguration{ReservedSystemCPUs: "0-1"}
	w.m.restarted()
	w.settle()
	if len(told) < 2 || told[0] != "0" || told[len(told)-1] != "0-1" {
		t.Errorf("told of reserved CPUs %q, want 0, then 0-1", told)
	}
	books, err := enforce.NewBooks(w.m.around.platform.spec.Machine, shapes.CPUs("0"), enforce.Hold)
	if err != nil {
		t.Fatal(err)
	}
	e := &enforcer{opts: &Options{Log: slog.New(slog.DiscardHandler)}, changed: func() {}}
	p := enforce.NewPlugin(books, t.Logf)
	e.set(p, nil, nil)
	e.renew(w.m.around.platform)
	pod := &api.PodSandbox{Id: "s", Uid: "u", Name: "p", Namespace: "ns"}
	adjust, _, err := p.CreateContainer(t.Context(), pod, &api.Container{Id: "c", PodSandboxId: "s", Name: "main"})
	if err != nil || adjust.GetLinux().GetResources().GetCpu().GetCpus() != "0-7" {
		t.Errorf("%v, %v", adjust, err)
	}
	d := placement.Decision{UID: "v", Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}, CPUs: shapes.CPUs("1")}}}
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Decision: d})
	if err != nil {
		t.Fatal(err)
	}
	pod = &api.PodSandbox{Id: "t", Uid: "v", Name: "q", Namespace: "ns", Annotations: map[string]string{wire.PlacementAnnotation: text}}
	if _, _, err = p.CreateContainer(t.Context(), pod, &api.Container{Id: "d", PodSandboxId: "t", Name: "main"}); err == nil || !strings.Contains(err.Error(), "CPUs 1, which are reserved") {
		t.Errorf("a CPU that is reserved since: %v", err)
	}
}

// TestAstrayIsACondition: containers that do not run as decided are named in a condition of the
// report, which is still reliable.
func TestAstrayIsACondition(t *testing.T) {
	w := newObeyingWorld(t)
	w.obeys(&obeyed{astray: []string{"ns/p/main runs on CPUs \"2-5\" instead of the decided CPUs \"2-3\""}})
	w.settle()
	n := w.last()
	c := meta.FindStatusCondition(n.Report.Conditions, v1alpha1.ConditionEnforced)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonAstray || !strings.Contains(c.Message, "ns/p/main") {
		t.Errorf("%+v", c)
	}
	if !strings.HasPrefix(w.ready(), "True") {
		t.Error(w.ready())
	}
	w.obeys(&obeyed{})
	w.settle()
	n = w.last()
	if c := meta.FindStatusCondition(n.Report.Conditions, v1alpha1.ConditionEnforced); c != nil {
		t.Errorf("%+v stays", c)
	}
}

// placed shows a running pod whose one container got the CPUs. p has the rest of its placement.
func (w *world) placed(uid, cpus string, p wire.Placement) *corev1.Pod {
	w.t.Helper()
	p.Sequence, p.Decision = 1, placement.Decision{UID: uid, Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}, CPUs: shapes.CPUs(cpus)}}}
	text, err := wire.WritePlacement(&p)
	if err != nil {
		w.t.Fatal(err)
	}
	pod := w.pod(uid, corev1.PodRunning)
	pod.Annotations = map[string]string{wire.PlacementAnnotation: text}
	w.m.pods.see(pod, w.clock)
	return pod
}

// entrust shows a pod that was placed while koordlet carries decisions out.
func (w *world) entrust(uid, cpus string, phase corev1.PodPhase) *corev1.Pod {
	w.t.Helper()
	pod := w.placed(uid, cpus, wire.Placement{Guarantee: wire.GuaranteeAmounts, Authority: placement.AuthorityBerth, Koordlet: true})
	pod.Annotations[wire.KoordinatorStatusAnnotation] = `{"cpuset":"` + cpus + `"}`
	pod.Status.Phase = phase
	w.m.pods.see(pod, w.clock)
	return pod
}

// rival returns a pod of a rival that is known by default.
func (w *world) rival(uid string, n int) *corev1.Pod {
	r := DefaultRivals()[n]
	pod := w.pod(uid, corev1.PodRunning)
	pod.Namespace, pod.Spec.ServiceAccountName = r.Namespace, r.ServiceAccount
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: r.DaemonSet, Controller: new(true)}}
	return pod
}

// TestTenantsDoNotDecide: nothing that any user may write into a pod makes a node unusable, or an
// unusable node usable.
func TestTenantsDoNotDecide(t *testing.T) {
	demands := map[string]string{wire.KoordinatorStatusAnnotation: "{}"}
	wire.DemandPlugin(demands, &placement.Decision{Containers: []placement.ContainerDecision{{Name: "main"}}})
	annotated := func(w *world) {
		pod := w.placed("p", "2-3", wire.Placement{Guarantee: wire.GuaranteeFull})
		maps.Copy(pod.Annotations, demands)
		w.m.pods.see(pod, w.clock)
		w.cpus("0-1,4-7", map[string]string{"p": "2-3"})
		w.admitted("p")
	}
	t.Run("annotations, authority kubelet", func(t *testing.T) {
		w := newWorld(t)
		annotated(w)
		w.settle()
		w.wantReady(v1alpha1.ReasonConsistent, "")
	})
	for _, r := range DefaultRivals() {
		t.Run("an image called "+r.Program, func(t *testing.T) {
			w := newObeyingWorld(t)
			pod := w.pod("o", corev1.PodRunning)
			pod.Spec.Containers[0].Image = "registry.evil.example:5000/x/" + r.Program + ":v1.6@sha256:ab"
			pod.Spec.ServiceAccountName = r.ServiceAccount
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: r.DaemonSet, Controller: new(true)}}
			w.m.pods.see(pod, w.clock)
			w.settle()
			w.wantReady(v1alpha1.ReasonConsistent, "")
			n := w.last()
			c := meta.FindStatusCondition(n.Report.Conditions, v1alpha1.ConditionSoleOwner)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "the image of pod ns/pod-o is named like "+r.Program) {
				t.Errorf("%+v, want a warning", c)
			}
			w.m.pods.lose(pod, w.clock)
			w.settle()
			if n := w.last(); meta.FindStatusCondition(n.Report.Conditions, v1alpha1.ConditionSoleOwner) != nil {
				t.Error("the warning outlives the pod")
			}
		})
	}
	t.Run("an image called koordlet where koordlet is to carry out", func(t *testing.T) {
		w := newObeyingWorld(t)
		w.m.around.enforcer = v1alpha1.EnforcerKoordlet
		pod := w.pod("o", corev1.PodRunning)
		pod.Spec.Containers[0].Image = "koordlet"
		w.m.pods.see(pod, w.clock)
		w.settle()
		if got := w.ready(); !strings.HasPrefix(got, "False NotEnforced: koordlet should carry out decisions, but no pod on this node runs it") {
			t.Error(got)
		}
	})
}

// TestRivals: a rival is recognized by its namespace, DaemonSet and ServiceAccount together, and
// only if it is in the administrator's list.
func TestRivals(t *testing.T) {
	w := newWorld(t)
	for n, r := range DefaultRivals() {
		if got := rivalIn(DefaultRivals(), w.rival("o", n)); got != r.Program {
			t.Errorf("%s is taken for %q", r.Program, got)
		}
	}
	of := w.rival("o", 0)
	of.Namespace, of.Spec.ServiceAccountName, of.OwnerReferences[0].Name = "katalyst-system", "katalyst-agent", "katalyst-agent"
	if got := rivalIn(DefaultRivals(), of); got != "katalyst-agent" {
		t.Errorf("katalyst-agent is taken for %q", got)
	}
	for what, change := range map[string]func(*corev1.Pod){
		"another namespace":      func(p *corev1.Pod) { p.Namespace = "ns" },
		"another ServiceAccount": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" },
		"no owner":               func(p *corev1.Pod) { p.OwnerReferences = nil },
		"another kind of owner":  func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"another DaemonSet":      func(p *corev1.Pod) { p.OwnerReferences[0].Name = "x" },
	} {
		pod := w.rival("o", 0)
		if change(pod); rivalIn(DefaultRivals(), pod) != "" {
			t.Errorf("%s: taken for koordlet", what)
		}
	}
	own, err := ParseRivals("mine=ns/set/account,koordlet=k/koordlet/sa")
	if err != nil || len(own) != 2 || own[1] != (Rival{"koordlet", "k", "koordlet", "sa"}) || own[0].String() != "mine=ns/set/account" {
		t.Errorf("%v, %v", own, err)
	}
	if none, err := ParseRivals(""); err != nil || none == nil || len(none) != 0 {
		t.Errorf("%v, %v, want an empty list, which is no default", none, err)
	}
	for _, bad := range []string{"koordlet", "koordlet=ns", "koordlet=ns/set", "=ns/set/sa", "a=b//c", "a=b/c/d/e", "a=b/c/d,"} {
		if got, err := ParseRivals(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestKoordletCarriesOut: with koordlet as the enforcer, its pod is required instead of refused.
// Pods have the resources of their decisions until the kubelet no longer runs them.
func TestKoordletCarriesOut(t *testing.T) {
	w := newObeyingWorld(t)
	w.m.around.enforcer = EnforcerByLabel
	w.node = w.node.DeepCopy()
	w.node.Labels = map[string]string{EnforcerLabel: "koordlet"}
	w.settle()
	if got := w.ready(); !strings.HasPrefix(got, "False NotEnforced: koordlet should carry out decisions, but no pod on this node runs it") {
		t.Errorf("without koordlet: %s", got)
	}
	koordlet := w.rival("o", 0)
	w.m.pods.see(koordlet, w.clock)
	a := w.entrust("a", "2-3", corev1.PodRunning)
	w.entrust("b", "4", corev1.PodRunning)
	w.admitted("a", "b", "o")
	w.settle()
	if nt := w.writes[len(w.writes)-1]; nt.Spec.Enforcer != v1alpha1.EnforcerKoordlet || nt.Status.SharedCPUs != "0-1,5-7" || !strings.HasPrefix(w.ready(), "True") {
		t.Errorf("enforcer %q, shared %s, %s", nt.Spec.Enforcer, nt.Status.SharedCPUs, w.ready())
	}
	w.wantPods("o::", "a::2-3", "b::4")
	w.m.pods.lose(a, w.clock)
	w.entrust("b", "4", corev1.PodSucceeded)
	w.active = map[string]int{"ns/pod-a": 1, "ns/pod-b": 1}
	w.steps(20)
	w.wantPods("o::", "a::2-3", "b::4")
	w.active = map[string]int{}
	w.settle()
	w.wantPods("o::")
	asked := w.asked
	w.settle()
	if w.asked != asked || len(w.m.pods.all()) != 2 {
		t.Errorf("the kubelet was asked again about pods that are over, and %d pods are remembered", len(w.m.pods.all()))
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"another owner": {func(w *world) {
			w.m.pods.see(w.rival("p", 1), w.clock)
		}, "False Contradiction: pod kube-system/pod-p runs dracpu"},
		"the agent's pod": {func(w *world) {
			w.placed("p", "2-3", wire.Placement{Authority: placement.AuthorityBerth})
			w.admitted("p", "o")
		}, "False Contradiction: koordlet carries out decisions here, but pod ns/pod-p was placed when the agent carried them out: drain the node"},
		"the kubelet decides again": {func(w *world) {
			w.entrust("q", "5", corev1.PodRunning)
			w.admitted("q", "o")
			w.m.around.authority = v1alpha1.AuthorityKubelet
		}, "False Contradiction: the kubelet decides here, but pod ns/pod-q was placed when Berth decided"},
		"a word nobody knows": {func(w *world) { w.node.Labels = map[string]string{EnforcerLabel: "Koordlet"} },
			`metadata.labels[berth.dev/enforcer]: "Koordlet": want agent or koordlet`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newObeyingWorld(t)
			w.m.around.enforcer = EnforcerByLabel
			w.node = w.node.DeepCopy()
			w.node.Labels = map[string]string{EnforcerLabel: "koordlet"}
			w.m.pods.see(koordlet, w.clock)
			c.change(w)
			w.settle()
			if got := w.ready(); !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestWhoEnforces: the agent's own plugin runs only if the labels name the agent.
func TestWhoEnforces(t *testing.T) {
	for _, c := range []struct {
		authority v1alpha1.Authority
		enforcer  v1alpha1.Enforcer
		label     string
		want      bool
	}{
		{v1alpha1.AuthorityBerth, v1alpha1.EnforcerAgent, "koordlet", true},
		{v1alpha1.AuthorityBerth, v1alpha1.EnforcerKoordlet, "agent", false},
		{v1alpha1.AuthorityBerth, EnforcerByLabel, "", true},
		{v1alpha1.AuthorityBerth, EnforcerByLabel, "koordlet", false},
		{v1alpha1.AuthorityKubelet, EnforcerByLabel, "", false},
	} {
		o := &Options{Authority: c.authority, Enforcer: c.enforcer}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{EnforcerLabel: c.label}}}
		if got, err := o.enforces(node); err != nil || got != c.want {
			t.Errorf("%+v: %t, %v", c, got, err)
		}
	}
}

// TestPopulated: a container is alive while there are processes in its cgroup.
func TestPopulated(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	cgroups := fstest.MapFS{"kubepods/u/a/cgroup.events": file("populated 1\nfrozen 0\n"), "kubepods/u/b/cgroup.events": file("populated 0\nfrozen 1\n"),
		"kubepods/u/dir/cgroup.events/x": file("")} // an unreadable file counts as running
	for path, want := range map[string]bool{"/kubepods/u/a": true, "/kubepods/u/b": false, "/kubepods/u/gone": false, "": false, "/kubepods/u/dir": true, "a.slice:no": true} {
		if got := populated(cgroups, path); got != want {
			t.Errorf("%q: %t, want %t", path, got, want)
		}
	}
}
