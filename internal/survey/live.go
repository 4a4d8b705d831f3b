package survey

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Live is a survey that is kept up to date and shared by many readers. It is safe for concurrent
// use.
type Live struct {
	c *Cluster
	// w watches the cluster. It is nil before Run, and for a snapshot.
	w *watcher
	// The map `still` contains the pods of a snapshot, by namespace/name. It is nil if the source
	// is a cluster.
	still map[string]*corev1.Pod
	// groups are the objects that declare gangs.
	groups source.Recent[source.Groups]

	mu   sync.RWMutex
	s    *Survey
	rows map[string]*Row // the rows of the nodes of s, by name
	// ready is closed when the first data is available.
	ready chan struct{}
	once  sync.Once
	// trouble is the last problem of the watch; "" after new data has arrived.
	trouble string
	told    func(nodes, pods []string)
}

// NewLive returns a Live that reads the cluster. The caller must not use c afterwards. Live sends
// no request before Run.
func (c *Cluster) NewLive() *Live {
	l := &Live{c: c, s: &Survey{States: map[string]*NodeState{}, Facts: &source.Facts{}, Now: time.Now()}, rows: map[string]*Row{}, ready: make(chan struct{})}
	if s, ok := c.From.(*source.Snapshot); ok {
		l.show(s)
	}
	return l
}

// show fills in the data of a snapshot, which never changes.
func (l *Live) show(s *source.Snapshot) {
	f, _ := s.Facts(context.Background(), "") // a snapshot returns no error
	l.s, l.still = l.c.surveyOf(f), map[string]*corev1.Pod{}
	for _, p := range s.Pods {
		l.still[keyOf(p.Namespace, p.Name)] = p
	}
	for name, n := range l.s.States {
		l.rows[name] = n.row(l.s.Now)
	}
	close(l.ready)
}

// Ready returns a channel that is closed when the first data is available.
func (l *Live) Ready() <-chan struct{} { return l.ready }

// Where returns the name of the data source: the API server and the kubeconfig, or the snapshot.
func (l *Live) Where() string { return l.c.Where }

// Moves reports whether the data can change. It returns false for a snapshot.
func (l *Live) Moves() bool { return l.still == nil }

// Run follows the cluster until ctx ends. It calls the function `told` with the names of nodes and
// the keys of pods that may have changed. If the result of Lost or the permissions to watch have
// changed, it calls told without names. told may be nil.
func (l *Live) Run(ctx context.Context, told func(nodes, pods []string)) error {
	if !l.Moves() {
		<-ctx.Done()
		return nil
	}
	a, err := l.c.API()
	if err != nil {
		return err
	}
	f, err := a.Readable(ctx)
	if err != nil {
		return err
	}
	if f.PodsKnown {
		l.c.Namespace = metav1.NamespaceAll
	}
	w, err := l.c.watch(f, source.Following{AllPods: true, Swung: func() {
		if told != nil {
			told(nil, nil)
		}
	}})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.w, l.told = w, told
	l.s.Facts, l.s.Notes = f, f.Notes
	l.mu.Unlock()
	return w.Run(ctx, l.changed, l.wrong)
}

// changed computes the nodes in ch again, and stores the results.
func (l *Live) changed(ch *source.Changes) error {
	names := slices.Sorted(maps.Keys(ch.Nodes))
	nodes, rows := make([]*NodeState, len(names)), make([]*Row, len(names))
	now := l.w.Now()
	parallel.Do(len(names), func(i int) {
		if nodes[i] = l.w.at(names[i]); nodes[i] != nil {
			rows[i] = nodes[i].row(now)
		}
	})
	l.mu.Lock()
	l.s.Now, l.trouble = now, ""
	for i, name := range names {
		if nodes[i] == nil {
			delete(l.s.States, name)
			delete(l.rows, name)
			continue
		}
		l.s.States[name], l.rows[name] = nodes[i], rows[i]
	}
	l.mu.Unlock()
	l.once.Do(func() { close(l.ready) })
	if l.told != nil {
		l.told(names, slices.Sorted(maps.Keys(ch.Pods)))
	}
	return nil
}

func (l *Live) wrong(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = text
}

// Notes returns notes about data that could not be read, and about problems of the watch.
func (l *Live) Notes() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := slices.Clone(l.s.Notes)
	if l.trouble != "" {
		out = append(out, l.trouble)
	}
	if l.w != nil {
		out = append(out, l.w.Denied()...)
	}
	return out
}

// Lost returns the kinds of objects that cannot be followed now. Their data dates from the time
// Lost.Since.
func (l *Live) Lost() []source.Lost {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.w == nil {
		return nil
	}
	return l.w.Lost()
}

// Now returns the current time by the API server's clock, or the time of the snapshot.
func (l *Live) Now() time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.w != nil {
		return l.w.Now()
	}
	return l.s.Now
}

// Rows returns the summaries of all nodes, sorted by name. They are shared: do not change them.
func (l *Live) Rows() []*Row {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]*Row, 0, len(l.rows))
	for _, name := range slices.Sorted(maps.Keys(l.rows)) {
		out = append(out, l.rows[name])
	}
	return out
}

// Row returns the summary of one node, or nil if there is no such node.
func (l *Live) Row(name string) *Row {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.rows[name]
}

// Row is a node's line in a list.
type Row struct {
	Node
	// Pool is the name of the node's pool, or "" if none of the node's labels names a pool.
	Pool string `json:"pool,omitempty"`
	// Namespaces are the namespaces of the node's pods that could be pinned, in ascending order.
	Namespaces []string `json:"namespaces,omitempty"`
	// Packages has, for each element of NUMANodes, the index of its package in Machine.Packages, or
	// -1 if it is in no package. It is nil if the NUMA nodes are in fewer than two packages.
	Packages []int `json:"packages,omitempty"`

	once    sync.Once
	text    []byte
	textErr error
}

// JSON returns the row as JSON. It encodes the row only once, so callers must not change the row or
// the result.
func (r *Row) JSON() ([]byte, error) {
	r.once.Do(func() { r.text, r.textErr = json.Marshal(r) })
	return r.text, r.textErr
}

// poolLabels are labels that name a node's pool: Berth's own first, then labels of cloud providers.
var poolLabels = []string{
	"berth.dev/pool", "pool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
	"karpenter.sh/nodepool", "node.kubernetes.io/instance-type",
}

// Pool returns the name of the node's pool, or "" if none of the poolLabels is set.
func (n *NodeState) Pool() string {
	for _, label := range poolLabels {
		if n.Object != nil && n.Object.Labels[label] != "" {
			return n.Object.Labels[label]
		}
	}
	return ""
}

func (n *NodeState) row(now time.Time) *Row {
	out := &Row{Node: n.summary(now), Pool: n.Pool()}
	seen := map[string]bool{}
	for _, pod := range n.Bound {
		if seen[pod.Namespace] || wire.OfReservation(pod) {
			continue
		}
		if ask, err := wire.ReadPod(pod); err == nil && ask.Request.Pinnable() {
			seen[pod.Namespace] = true
		}
	}
	out.Namespaces, out.Packages = slices.Sorted(maps.Keys(seen)), packagesOf(n.Machine(), out.NUMANodes)
	return out
}

// packagesOf computes Row.Packages for the NUMA nodes of a machine.
func packagesOf(m *topology.Machine, nodes []NUMANode) []int {
	out, seen := make([]int, len(nodes)), map[int]bool{}
	for i := range nodes {
		out[i] = -1
		at := slices.IndexFunc(m.NUMANodes, func(n topology.NUMANode) bool { return !nodes[i].Anywhere && n.ID == nodes[i].NUMA })
		if at < 0 || m.NUMANodes[at].CPUs.IsEmpty() {
			continue
		}
		if out[i] = slices.IndexFunc(m.Packages, func(p topology.Package) bool { return m.NUMANodes[at].CPUs.IsSubsetOf(&p.CPUs) }); out[i] >= 0 {
			seen[out[i]] = true
		}
	}
	if len(seen) < 2 {
		return nil
	}
	return out
}

// Standing has all data about one node.
type Standing struct {
	Machine    *topology.Machine
	Berths     *machineview.Berths // nil if nothing is known about the node; Problem then explains why
	Problem    string
	Conditions []Condition
	// Pods are the bound pods that could be pinned, and the resources that Reservations hold for
	// future pods.
	Pods   []Pod
	Labels map[string]string
}

// Standing returns all data about one node, or false if there is no such node.
func (l *Live) Standing(name string) (Standing, bool) {
	s := l.surveyOf(name)
	n := s.States[name]
	if n == nil {
		return Standing{}, false
	}
	out := Standing{Machine: n.Machine(), Conditions: s.Conditions(name)}
	if n.Object != nil {
		out.Labels = n.Object.Labels
	}
	var err error
	if out.Berths, err = s.Berths(name); err != nil {
		out.Problem = err.Error()
	}
	for _, pod := range n.Bound {
		if sum, pinned := s.Pod(pod); pinned {
			out.Pods = append(out.Pods, sum)
		}
	}
	slices.SortFunc(out.Pods, func(a, b Pod) int { return strings.Compare(a.Key(), b.Key()) })
	return out, true
}

// State returns the state of a node, or nil if there is no such node.
func (l *Live) State(name string) *NodeState {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.s.States[name]
}

// Survey returns a copy of the current state of all nodes, without notes. Callers may read it
// without the lock, because its nodes and pods are never changed, only replaced.
func (l *Live) Survey(context.Context, string) (*Survey, error) { return l.survey(), nil }

func (l *Live) survey() *Survey {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := *l.s
	s.Notes = nil
	if l.w != nil {
		s.Now = l.w.Now()
	}
	s.States = maps.Clone(l.s.States)
	if l.w != nil {
		f := *l.s.Facts
		f.Reservations = l.w.Reservations()
		s.Facts = &f
	}
	return &s
}

// surveyOf returns a survey of only the named node. Its cost does not depend on the number of
// nodes.
func (l *Live) surveyOf(name string) *Survey {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := *l.s
	s.States = map[string]*NodeState{}
	if n := l.s.States[name]; n != nil {
		s.States[name] = n
	}
	return &s
}

// Pod returns the summary of a pod, or false if there is no such pod.
func (l *Live) Pod(namespace, name string) (Pod, bool) {
	pod := l.pod(keyOf(namespace, name))
	if pod == nil {
		return Pod{}, false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	sum, _ := l.s.Pod(pod)
	return sum, true
}

// Summaries returns the summaries of pods, in the given order. An entry is nil if the pod could not
// be pinned and has no placement that pins it.
func (l *Live) Summaries(pods []*corev1.Pod) []*Pod {
	s := l.survey()
	out := make([]*Pod, len(pods))
	parallel.Do(len(pods), func(i int) {
		if sum, pinned := s.Pod(pods[i]); pinned {
			sum.Containers = nil // only the method Pod returns containers
			out[i] = &sum
		}
	})
	return out
}

// Cluster returns the cluster that is surveyed.
func (l *Live) Cluster() *Cluster { return l.c }

// PodNamed returns a pod. If there is none, it returns an error.
func (l *Live) PodNamed(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	if pod := l.pod(keyOf(namespace, name)); pod != nil {
		return pod, nil
	}
	return nil, l.c.noPod(namespace, name)
}

func (l *Live) pod(key string) *corev1.Pod {
	if l.w == nil {
		return l.still[key]
	}
	return l.w.Pod(key)
}

// Stranded returns the stranded resources on all nodes (Survey.Stranded).
func (l *Live) Stranded() []Stranded { return l.survey().Stranded(l.c.wantsOf(l.Pods())) }

// Another returns a copy of a pod from which a user can create a similar pod: without node, status,
// volumes and scheduling gates, and without the labels and annotations that only Berth writes. It
// returns nil if the pod does not exist.
func (l *Live) Another(namespace, name string) *corev1.Pod {
	pod := l.pod(keyOf(namespace, name))
	if pod == nil {
		return nil
	}
	out := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: *pod.Spec.DeepCopy()}
	out.Name, out.Namespace, out.Labels = pod.Name, pod.Namespace, maps.Clone(pod.Labels)
	delete(out.Labels, wire.HolderLabel)
	asks := wire.PodKeys()
	for key, value := range pod.Annotations {
		if key != wire.PlacementAnnotation && key != wire.BoundForAnnotation && (!strings.HasPrefix(key, wire.OwnPrefix) || slices.Contains(asks, key)) {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	out.Spec.NodeName, out.Spec.Volumes, out.Spec.SchedulingGates = "", nil, nil
	return out
}

// Pods returns all known pods, in no particular order. They are shared: do not change them.
func (l *Live) Pods() []*corev1.Pod {
	if l.w == nil {
		return slices.Collect(maps.Values(l.still))
	}
	return l.w.Pods()
}
