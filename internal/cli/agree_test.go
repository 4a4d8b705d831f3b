package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/web"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// clustersAsked is the number of random clusters in TestAllSayTheSame, and firstCluster its first
// seed.
const (
	clustersAsked = 150
	firstCluster  = 1
	// copiesAsked limits the number of copies that are counted on a node.
	copiesAsked = 50
)

// TestAllSayTheSame: in random clusters, the verbs, the map and the ledger agree on what is free,
// what each pod has, which nodes admit a pod and how often, and what is stranded.
func TestAllSayTheSame(t *testing.T) {
	seen := map[string]int{}
	for seed := uint64(firstCluster); seed < firstCluster+clustersAsked; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomCluster(t, seed).check(seen) })
	}
	if t.Failed() {
		return
	}
	for _, what := range []string{query.Admits, query.Refuses, query.Waits, query.Unreliable, query.Excluded,
		"shares", "passes", "berth", "kubelet", "admitted", "in flight", "ended", "stranded", "copies", "short"} {
		if seen[what] < 5 {
			t.Errorf("%q came up %d times: the clusters are not as they should be; of all: %v", what, seen[what], seen)
		}
	}
}

// agreeing is a random cluster with a ledger.
type agreeing struct {
	*testing.T
	*world
	rng  *rand.Rand
	seen map[string]int
	// books has the ledger's nodes that are reliable, and reports those of all nodes that have one.
	books    map[string]*ledger.Node
	reports  map[string]*wire.Node
	snapshot string
	web      *web.Server
}

func randomCluster(t *testing.T, seed uint64) *agreeing {
	a := &agreeing{T: t, world: &world{t: t}, rng: rand.New(rand.NewPCG(seed, 30)), books: map[string]*ledger.Node{}, reports: map[string]*wire.Node{}}
	a.pods = make([]corev1.Pod, 0, 256) // pointers to pods are used below
	for i := range 1 + a.rng.IntN(4) {
		a.addRandomNode(fmt.Sprint("n", i))
	}
	for i := range 3 {
		p := a.randomPod(fmt.Sprint("waits", i), "")
		p.CreationTimestamp = metav1.NewTime(noon) // fit assumes pods that come last
		if !requestOf(t, p).Pinnable() {
			a.wish(p)
		}
	}
	return a
}

func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// randomPod adds a pod that may request CPUs, fractions of them, memory and devices.
func (a *agreeing) randomPod(name, node string) *corev1.Pod {
	p := a.addPod(name, node, int64(1+a.rng.IntN(6)), int64(max(0, a.rng.IntN(5)-2)))
	limits := p.Spec.Containers[0].Resources.Limits
	limits[corev1.ResourceMemory] = *resource.NewQuantity(int64(1+a.rng.IntN(6))<<30, resource.BinarySI)
	switch a.rng.IntN(8) {
	case 0:
		limits[corev1.ResourceCPU] = resource.MustParse("1500m")
	case 1:
		p.Spec.Containers[0].Resources.Limits, p.Status.QOSClass = nil, corev1.PodQOSBurstable
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	case 2:
		second := p.Spec.Containers[0].DeepCopy()
		second.Name = "second"
		p.Spec.Containers = append(p.Spec.Containers, *second)
	}
	if policy := pick(a.rng, "", "", "", "best-effort", "restricted", "single-numa-node"); policy != "" {
		p.Annotations = map[string]string{wire.PolicyAnnotation: policy}
	}
	return p
}

// wish makes a pod that shares CPUs request more of them, and perhaps a placement.
func (a *agreeing) wish(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(500*int64(1+a.rng.IntN(16)), resource.DecimalSI)
	for key, value := range pick(a.rng, nil, nil, map[string]string{wire.CPUsAnnotation: "full-cores"}, map[string]string{wire.NUMANodesAnnotation: "2", wire.PolicyAnnotation: "restricted"}) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
}

// hasSay reports whether a scheduler asks the node about the pod.
func (a *agreeing) hasSay(p *corev1.Pod, n *answered) bool {
	r := requestOf(a, p)
	report := a.reports[n.Node]
	switch {
	case r.Pinnable():
		return true
	case (report == nil || report.Spec.Authority != v1alpha1.AuthorityBerth) && r.Rules.NUMANodes == 0:
		return false
	}
	return report != nil && !a.silent(n.Node) || len(p.Annotations) > 0
}

// silent reports whether the node's agent has sent no heartbeat for more than a minute.
func (a *agreeing) silent(node string) bool {
	at := slices.IndexFunc(a.leases, func(l coordinationv1.Lease) bool { return l.Name == v1alpha1.HeartbeatName(node) })
	return noon.Sub(a.leases[at].ManagedFields[0].Time.Time) > time.Minute
}

// addRandomNode adds a node with pods: reported ones, some of which have ended, and pods in flight.
func (a *agreeing) addRandomNode(name string) {
	m := shapes.Machine(pick(a.rng, twoSockets, "package:1 numa:2 core:6 pu:1 mem:8Gi dist:10,12", "package:2 numa:2 core:3 pu:2 mem:8Gi dist:10,12,21", "package:1 numa:1 core:8 pu:1 mem:32Gi"))
	view := made.View(a, m)
	n := &wire.Node{Name: name, Spec: wire.NodeSpec{Machine: m, View: view, Authority: pick(a.rng, v1alpha1.AuthorityKubelet, v1alpha1.AuthorityBerth), KubeletVersion: "v1.36.3",
		Config: placement.Config{Version: placement.V136, ReservedSystemCPUs: pick(a.rng, "0", "0-1")}}}
	policy, scope := pick(a.rng, "none", "best-effort", "restricted", "single-numa-node"), pick(a.rng, "container", "pod")
	if c := &n.Spec.Config; n.Spec.Authority == v1alpha1.AuthorityBerth {
		c.Authority = placement.AuthorityBerth
		c.TopologyManagerPolicy, c.TopologyManagerScope = policy, scope
	} else {
		c.CPUManagerPolicy, c.TopologyManagerPolicy, c.TopologyManagerScope = pick(a.rng, "static", "static", "none"), policy, scope
	}
	c := &n.Spec.Config
	if n.Spec.Authority == v1alpha1.AuthorityBerth || a.rng.IntN(2) == 0 {
		if n.Spec.Authority == v1alpha1.AuthorityKubelet {
			c.MemoryManagerPolicy = "Static"
		}
		c.ReservedMemory = []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}}
	}
	a.fill(n)
	node := a.addNode(name, time.Duration(a.rng.IntN(30))*time.Second)
	switch a.rng.IntN(10) {
	case 0:
		node.Spec.Unschedulable = true
	case 1:
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(m.NUMANodes[0].CPUs.Len()*len(m.NUMANodes)), resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("64Gi"), "example.com/gpu": resource.MustParse("8"), corev1.ResourcePods: *resource.NewQuantity(int64(a.rng.IntN(8)), resource.DecimalSI)}
	case 2:
		a.leases[len(a.leases)-1].ManagedFields = managed(noon.Add(-2 * time.Minute)) // makes the agent silent
	case 3:
		return // no report
	}
	a.addTopology(n, nil)
	a.reports[name] = n
}

// fill admits pods on the node, writes its report, and then binds some more.
func (a *agreeing) fill(n *wire.Node) {
	model := made.ModelOf(a, n.Spec.View, n.Spec.Config)
	k := sim.NewKubelet(model)
	pool := placement.DevicePool{Resource: "example.com/gpu", Preference: placement.SortedPreference}
	for i := range a.rng.IntN(6) {
		id := n.Spec.Machine.NUMANodes[a.rng.IntN(len(n.Spec.Machine.NUMANodes))].ID
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprint("g", i), NUMA: topology.NewNUMASet(id), HasTopology: true, Unhealthy: a.rng.IntN(8) == 0})
	}
	k.State.SetPool(pool)
	n.Report = wire.Report{Sequence: 7, Observed: noon.Add(-5 * time.Minute), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent, LastTransitionTime: metav1.NewTime(noon)}}}
	reported := map[string]*corev1.Pod{}
	for i := range a.rng.IntN(5) {
		p := a.randomPod(fmt.Sprint(n.Name, "-", i), n.Name)
		if ad := k.Admit(requestOf(a, p)); !ad.Verdict.OK() {
			a.pods = a.pods[:len(a.pods)-1]
			continue
		}
		reported[string(p.UID)] = p
	}
	n.Report.Snapshot = k.State.Snapshot()
	for _, alloc := range n.Report.Snapshot.Pods {
		p := reported[alloc.UID]
		one := wire.ReportedPod{Namespace: p.Namespace, Name: p.Name}
		if a.rng.IntN(6) == 0 {
			one.State, p.Status.Phase = v1alpha1.PodEnded, corev1.PodSucceeded
			k.State.Release(alloc.UID) // later promises assume that it is gone
		}
		n.Report.Pods = append(n.Report.Pods, one)
	}
	// After a pod without a promise, the CPUs of later pods are unknown.
	promised := n.Spec.Authority == v1alpha1.AuthorityBerth || a.rng.IntN(3) > 0
	for i := range a.rng.IntN(4) {
		p := a.randomPod(fmt.Sprint(n.Name, "-new-", i), n.Name)
		r := requestOf(a, p)
		var d placement.Decision
		switch v := placement.Decide(k.State, r, &d); {
		case !v.OK() || !model.Keeps(r.Rules):
			a.pods = a.pods[:len(a.pods)-1]
		case promised:
			k.State.Commit(r, &d)
			text, err := wire.WritePlacement(&wire.Placement{Sequence: uint64(i + 1), Report: 7, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
				Authority: n.Spec.Config.Authority, Decision: d})
			if err != nil {
				a.Fatal(err)
			}
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, wire.PlacementAnnotation, text)
		}
	}
}

// check compares all answers.
func (a *agreeing) check(seen map[string]int) {
	a.seen = seen
	a.snapshot = filepath.Join(a.TempDir(), "cluster.berth")
	if code, _, stderr := run(a.T, "snapshot", a.snapshot, "--kubeconfig", a.kubeconfig()); code != ExitOK {
		a.Fatal(stderr)
	}
	f, err := os.Open(a.snapshot)
	if err != nil {
		a.Fatal(err)
	}
	defer f.Close()
	c, err := survey.Open(f, "random")
	if err != nil {
		a.Fatal(err)
	}
	a.web = web.New(web.Options{Live: c.NewLive()})
	var names []string
	for i := range a.nodes {
		names = append(names, a.nodes[i].Name)
	}
	a.web.Changed(names, nil)
	a.keepBooks()
	a.checkNodes()
	a.checkPods()
	a.checkStranded()
	for i := range a.world.pods {
		if p := &a.world.pods[i]; p.Spec.NodeName == "" {
			a.checkWaiting(p)
		}
	}
}

// keepBooks gives the ledger the same data as the scheduler does.
func (a *agreeing) keepBooks() {
	for i := range a.topologies {
		data, err := json.Marshal(a.topologies[i])
		if err != nil {
			a.Fatal(err)
		}
		var nt v1alpha1.NodeTopology
		if err := json.Unmarshal(data, &nt); err != nil {
			a.Fatal(err)
		}
		r := new(nodestate.Kinds).Read(&nt, nil)
		if r.Unusable != nil {
			a.Fatalf("%s: %v", nt.Name, r.Unusable)
		}
		book := new(ledger.Ledger).Open(nil)
		book.Accept(r.State)
		for j := range a.pods {
			p := &a.pods[j]
			if p.Spec.NodeName != nt.Name {
				continue
			}
			if s, err := nodestate.SightingOf(p); err == nil && (s.Phase != ledger.Ended || r.State.Has(s.UID)) {
				book.See(s.Sighting)
			}
		}
		a.books[nt.Name] = book
	}
}

// verb runs a verb on the snapshot, and decodes its answer.
func (a *agreeing) verb(out any, args ...string) (code int) {
	a.Helper()
	code, stdout, stderr := run(a.T, append(args, "--snapshot", a.snapshot, "-o", "json")...)
	if err := json.Unmarshal([]byte(stdout), out); err != nil {
		a.Fatalf("%v: %v: %s%s", args, err, stdout, stderr)
	}
	return code
}

// page requests a page of the map. It posts body, or sends a GET if body is "".
func (a *agreeing) page(out any, path, body string) {
	a.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if body != "" {
		r = httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/yaml")
	}
	w := httptest.NewRecorder()
	a.web.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil || w.Code != http.StatusOK {
		a.Fatalf("%s: status %d, %v: %s", path, w.Code, err, w.Body)
	}
}

// agree fails the test if two answers differ.
func (a *agreeing) agree(what string, one, other any) {
	a.Helper()
	if !reflect.DeepEqual(one, other) {
		first, _ := json.Marshal(one)
		second, _ := json.Marshal(other)
		a.Errorf("%s:\n%s\n%s", what, first, second)
	}
}

// shownNode is the page of a node on the map.
type shownNode struct {
	Row    survey.Node          `json:"row"`
	SVG    string               `json:"svg"`
	Legend []machineview.Legend `json:"legend"`
	Pods   []survey.Pod         `json:"pods"`
}

// drawnFree matches the number of free CPUs of a NUMA node in a drawing.
var drawnFree = regexp.MustCompile(`(\d+) of (\d+) CPUs free`)

// checkNodes compares what is free according to nodes, the rows, pages and drawings of the map, and
// the ledger.
func (a *agreeing) checkNodes() {
	var verb struct{ Nodes []survey.Node }
	a.verb(&verb, "nodes")
	var rows struct{ Rows []survey.Node }
	a.page(&rows, "/api/rows", "")
	a.agree("nodes and rows", verb.Nodes, rows.Rows)
	for i := range verb.Nodes {
		n := &verb.Nodes[i]
		a.seen[n.Authority]++
		var one struct{ Nodes []survey.Node }
		a.verb(&one, "nodes", n.Name)
		if len(one.Nodes) == 1 {
			one.Nodes[0].Holders = nil // which it has only if the node is named
			a.agree("nodes and nodes "+n.Name, *n, one.Nodes[0])
		}
		var page shownNode
		a.page(&page, "/api/nodes/"+n.Name, "")
		a.agree("nodes and the page of "+n.Name, *n, page.Row)
		book := a.books[n.Name]
		if book == nil {
			a.agree(n.Name+" without a report", len(n.NUMANodes), 0)
			continue
		}
		a.agree(n.Name+": nodes and ledger", freeOf(n.NUMANodes), a.freeInLedger(n.Name))
		var drawn, counted [][2]string
		for _, found := range drawnFree.FindAllStringSubmatch(page.SVG, -1) {
			drawn = append(drawn, [2]string{found[1], found[2]})
		}
		for _, m := range n.NUMANodes {
			if m.CPUs != nil {
				counted = append(counted, [2]string{strconv.FormatUint(m.CPUs.Free, 10), strconv.FormatUint(m.CPUs.Total, 10)})
			}
		}
		a.agree(n.Name+": drawing and nodes", drawn, counted)
	}
}

// freeOf returns what is free, by NUMA node and resource.
func freeOf(all []survey.NUMANode) map[string]uint64 {
	out := map[string]uint64{}
	for _, m := range all {
		for _, amount := range m.Amounts() {
			out[fmt.Sprint(m.NUMA, " ", amount.Resource)] = amount.Free
		}
	}
	return out
}

// freeInLedger returns what no pod in the ledger has, by NUMA node and resource.
func (a *agreeing) freeInLedger(name string) map[string]uint64 {
	n := a.reports[name]
	snap, ok := a.books[name].View().Snapshot()
	if !ok {
		a.Fatalf("%s: the ledger knows nothing", name)
	}
	reserved := shapes.CPUs(n.Spec.Config.ReservedSystemCPUs)
	out := map[string]uint64{}
	for i := range n.Spec.Machine.NUMANodes {
		m := &n.Spec.Machine.NUMANodes[i]
		free, shared, held := m.CPUs.AndNot(&reserved), int64(0), map[string]bool{}
		var bytes uint64
		for _, p := range snap.Pods {
			for _, c := range p.Containers {
				free = free.AndNot(&c.CPUs)
				for _, s := range c.Shares {
					if s.NUMA == m.ID {
						shared += s.MilliCPU
					}
				}
				for _, d := range c.Devices {
					for _, id := range d.IDs {
						held[id] = true
					}
				}
			}
		}
		if n.Spec.PinsCPUs() {
			out[fmt.Sprint(m.ID, " cpu")] = uint64(max(0, int64(free.Len())-(shared+999)/1000))
		}
		for _, books := range snap.Memory {
			for _, r := range books.Resources {
				if books.NUMA == m.ID && r.Resource == "memory" && r.Allocatable > 0 {
					bytes += r.Free
					out[fmt.Sprint(m.ID, " memory")] = bytes
				}
			}
		}
		for _, pool := range snap.Devices {
			for _, d := range pool.Devices {
				if d.NUMA.Has(m.ID) {
					key := fmt.Sprint(m.ID, " ", pool.Resource)
					out[key] += 0
					if !d.Unhealthy && !held[d.ID] {
						out[key]++
					}
				}
			}
		}
	}
	return out
}

// checkPods compares what pods have according to pods, the map's list and pages, explain, and the
// ledger.
func (a *agreeing) checkPods() {
	var verb struct{ Pods []survey.Pod }
	a.verb(&verb, "pods", "-A")
	var list struct {
		Pods []struct {
			Namespace, Name string
			Has             *survey.Pod
		}
	}
	a.page(&list, "/api/pods", "")
	has, onPage, legend := map[string]*survey.Pod{}, map[string]*survey.Pod{}, map[string]string{}
	for i := range list.Pods {
		if p := &list.Pods[i]; p.Has != nil {
			has[p.Name] = p.Has
		}
	}
	for name := range a.books {
		var page shownNode
		a.page(&page, "/api/nodes/"+name, "")
		for i := range page.Pods {
			onPage[page.Pods[i].Name] = &page.Pods[i]
		}
		for _, l := range page.Legend {
			legend[l.UID] = l.CPUs
		}
	}
	a.agree("how many pods are listed", len(verb.Pods), len(has))
	for i := range verb.Pods {
		p := verb.Pods[i]
		a.seen[p.State]++
		var page struct{ Pod survey.Pod }
		a.page(&page, "/api/pods/default/"+p.Name, "")
		a.agree("pods and the page of "+p.Name, p, page.Pod)
		if a.books[p.Node] != nil {
			a.agree("pods and the page of "+p.Name+"'s node", &p, onPage[p.Name])
			a.checkHeld(&p, legend)
		}
		if p.Node != "" {
			var e explained
			a.verb(&e, "explain", p.Name)
			a.checkBound(&p, &e)
		}
		p.Containers = nil // which only a single pod's answer has
		a.agree("pods and the list, of "+p.Name, &p, has[p.Name])
	}
}

// checkHeld compares a pod's CPUs with those in the ledger and in the legend of the drawing.
func (a *agreeing) checkHeld(p *survey.Pod, legend map[string]string) {
	snap, _ := a.books[p.Node].View().Snapshot()
	at := slices.IndexFunc(snap.Pods, func(o placement.PodAllocation) bool { return o.UID == p.UID })
	if p.State != survey.StateAdmitted && (p.State != survey.StateInFlight || p.Certainty != wire.Exact.String()) {
		return // it has no CPUs, or they are unknown
	}
	if at < 0 {
		a.agree(p.Name+": pods and ledger", p.CPUs, "")
		return
	}
	var cpus topology.CPUSet
	for _, c := range snap.Pods[at].Containers {
		cpus = cpus.Or(&c.CPUs)
	}
	a.agree(p.Name+": pods and ledger", cpusIn(a.T, p.CPUs), cpus.String())
	a.agree(p.Name+": pods and legend", cpusIn(a.T, p.CPUs), cpusIn(a.T, legend[p.UID]))
}

// cpusIn parses the CPUs of several containers as one list.
func cpusIn(t *testing.T, text string) string {
	set, err := topology.ParseCPUList(strings.ReplaceAll(text, ";", ","))
	if err != nil {
		t.Fatal(err)
	}
	return set.String()
}

// checkBound compares the answers of pods and explain about a bound pod.
func (a *agreeing) checkBound(p *survey.Pod, e *explained) {
	a.agree(p.Name+": node by pods and explain", p.Node, e.Node)
	a.agree(p.Name+": outcome by pods and explain", p.Outcome, e.Outcome)
	switch {
	case p.State == survey.StateInFlight && e.Promise != nil:
		a.agree(p.Name+": promise by pods and explain", []any{p.NUMANodes, p.Containers}, []any{e.Promise.NUMANodes, e.Promise.Containers})
	case e.Holds != nil && p.State == survey.StateAdmitted:
		a.agree(p.Name+": report by pods and explain", []any{p.State, p.NUMANodes, p.Containers}, []any{e.Holds.State, e.Holds.NUMANodes, e.Holds.Containers})
	}
}

// checkStranded compares frag with the map, and both with what is free according to nodes.
func (a *agreeing) checkStranded() {
	var verb struct{ Stranded []survey.Stranded }
	a.verb(&verb, "frag")
	var page struct {
		Resources []struct {
			survey.StrandedSum
			Most []survey.Stranded
		}
	}
	a.page(&page, "/api/stranded", "")
	var all []survey.Stranded
	for _, r := range page.Resources {
		sum := uint64(0)
		for _, s := range r.Most {
			sum += s.Stranded
		}
		a.agree("sum and parts of stranded "+r.Resource, []any{r.StrandedSum.Stranded, r.Count}, []any{sum, len(r.Most)})
		all = append(all, r.Most...)
	}
	a.seen["stranded"] += len(all)
	a.agree("frag and the map", verb.Stranded, all)
	var nodes struct{ Nodes []survey.Node }
	a.verb(&nodes, "nodes")
	for _, s := range verb.Stranded {
		n := &nodes.Nodes[slices.IndexFunc(nodes.Nodes, func(n survey.Node) bool { return n.Name == s.Node })]
		free := freeOf(n.NUMANodes)[fmt.Sprint(s.NUMA, " ", s.Resource)]
		a.agree(fmt.Sprintf("free %s of %s by frag and nodes", s.Resource, s.Node), s.Free, free)
		if s.Stranded > free || s.Stranded == 0 || n.Trouble != nil && s.Stranded != free {
			a.Errorf("%+v: %d are free", s, free)
		}
	}
}

// checkWaiting compares the answers of explain and the map about a waiting pod, the answer of fit
// about an equal pod, and the ledger's.
func (a *agreeing) checkWaiting(p *corev1.Pod) {
	var e explained
	a.verb(&e, "explain", p.Name)
	var page struct{ Explained explained }
	a.page(&page, "/api/pods/default/"+p.Name, "")
	a.agree(p.Name+": explain and the map", answersBy(e.Nodes), answersBy(page.Explained.Nodes))
	text, err := yaml.Marshal(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Annotations: p.Annotations}, Spec: p.Spec})
	if err != nil {
		a.Fatal(err)
	}
	file := filepath.Join(a.TempDir(), p.Name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		a.Fatal(err)
	}
	var verb, asked struct{ Pods []fitting }
	a.verb(&verb, "fit", "-f", file, "--limit", strconv.Itoa(copiesAsked))
	a.page(&asked, "/api/fit", string(text))
	if len(verb.Pods) != 1 || len(asked.Pods) != 1 {
		a.Fatalf("%s: fit answers about %d pods, the map about %d", p.Name, len(verb.Pods), len(asked.Pods))
	}
	fit := &verb.Pods[0]
	a.agree(p.Name+": copies by fit and the map", fit.copies(), asked.Pods[0].copies())
	a.agree(p.Name+": how many nodes take it", len(fit.copies()), asked.Pods[0].Taking)
	decided := fit.Pinnable
	for i := range fit.Nodes {
		n := &fit.Nodes[i]
		if a.hasSay(p, &n.answered) {
			decided = true
			a.checkAnswer(p, &n.answered, n.Copies, n.Next)
			continue
		}
		a.seen["passes"]++
		if n.Answer == query.Waits || n.Answer == query.Unreliable || n.Refusal != nil {
			a.Errorf("%s passes on %s, which says %s: %s", p.Name, n.Node, n.Answer, n.Message)
		}
	}
	a.agree(p.Name+": decided by explain, fit and hand", []bool{e.Decided, fit.Decided}, []bool{decided, decided})
	if decided {
		a.agree(p.Name+": explain and fit", answersBy(e.Nodes), answersBy(fit.answers()))
	}
	if decided && !fit.Pinnable {
		a.seen["shares"]++
	}
}

// explained is an explanation in JSON, and answered the answer of one node about a pod.
type (
	explained struct {
		Node, Outcome  string
		Decided        bool
		Promise, Holds *struct {
			State, NUMANodes string
			Containers       []survey.Container
		}
		Nodes []answered
	}
	answered struct {
		Node, Answer, Message, Advice, NUMANodes string

		Report          int64
		InFlight        int
		Choice, Refusal map[string]any
	}
	// fitting is an answer of fit.
	fitting struct {
		Pinnable       bool
		Decided        bool
		Copies, Taking int
		Nodes          []struct {
			answered
			Copies int
			Next   string
		}
	}
)

// answersBy returns the nodes' answers by node, without the UID, which is the pod's or its copy's.
func answersBy(all []answered) map[string]answered {
	out := map[string]answered{}
	for _, one := range all {
		delete(one.Refusal, "uid")
		out[one.Node] = one
	}
	return out
}

// answers returns the answers in a fitting.
func (f *fitting) answers() []answered {
	var out []answered
	for i := range f.Nodes {
		out = append(out, f.Nodes[i].answered)
	}
	return out
}

// copies returns how many copies each node admits, at most copiesAsked, if it admits any.
func (f *fitting) copies() map[string]int {
	out := map[string]int{}
	for i := range f.Nodes {
		if n := f.Nodes[i].Copies; n > 0 {
			out[f.Nodes[i].Node] = min(n, copiesAsked)
		}
	}
	return out
}

// reserve reserves copies on a node one after another, and returns how many it admitted.
func (a *agreeing) reserve(node string, c ledger.Candidate) int {
	book, request := a.books[node].Fork(), *c.Request
	for i := range copiesAsked {
		one := request
		one.UID += fmt.Sprint("/", i)
		c.Request = &one
		c.Created = noon.Unix() + 1 + int64(i)
		var d placement.Decision
		if said := book.Reserve(&c, &d); !said.OK() {
			return i
		}
	}
	return copiesAsked
}

// checkAnswer compares a node's answer with the ledger's. next is why the node admits no more
// copies.
func (a *agreeing) checkAnswer(p *corev1.Pod, n *answered, copies int, next string) {
	a.seen[n.Answer]++
	what := p.Name + " on " + n.Node
	a.agree(what+": admitted, and copies", n.Answer == query.Admits, copies > 0)
	switch {
	case n.Answer == query.Unreliable || n.Answer == query.Excluded:
		return
	case strings.Contains(next, ", and admits at most") || strings.Contains(next, "left for more pods, but"):
		a.seen["short"]++ // of amounts that the ledger does not count
		return
	}
	candidate := ledger.Candidate{Request: requestOf(a, p), Created: noon.Unix() + 1}
	view := a.books[n.Node].View()
	said := view.Ask(ledger.Question{Candidate: &candidate})
	word := map[ledger.Outcome]string{ledger.Admitted: query.Admits, ledger.Refused: query.Refuses, ledger.Waiting: query.Waits}[said.Outcome]
	a.agree(what+": fit and ledger", n.Answer, word)
	if word == query.Admits {
		a.seen["copies"]++
		a.agree(what+": NUMA nodes by fit and ledger", n.NUMANodes, said.Verdict.NUMA.String())
		a.agree(what+": copies by fit and ledger", copies, a.reserve(n.Node, candidate))
	}
}
