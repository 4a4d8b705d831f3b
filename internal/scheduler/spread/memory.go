package spread

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	fwk "k8s.io/kube-scheduler/framework"
)

// Bounds of what is remembered. What was not asked about for the longest time goes first.
const (
	maxSelectors = 128
	maxKeys      = 16
)

// Memory remembers, of the nodes of the scheduler's snapshot, how many pods selectors select and
// which values labels have. A node's Generation, which no two states of NodeInfos share outside of
// Kubernetes' own cycles of groups, says whether that still holds. It must not be asked in such a
// cycle. The zero value is useful. Only the goroutine that schedules uses it.
type Memory struct {
	// Parallelizer counts pods on many nodes at once; nil for one after another.
	Parallelizer fwk.Parallelizer

	nodes       []fwk.NodeInfo
	generations []int64
	// changed is the look at which a node was last found changed, by its place.
	changed []int64
	places  map[fwk.NodeInfo]int
	counts  map[string]*Counts
	values  map[string]*Values
	looks   int64
	// space is the memory of what stale returns.
	space []int
}

// column has a number for each node, by its place.
type column struct {
	numbers []int32
	// asked is the last look after which somebody asked for it; what changed at a later one is not
	// in it. It is 0 for none.
	asked int64
}

// at returns the number of the node of that place.
func (c *column) at(place int) int32 { return c.numbers[place] }

// Counts are how many pods of a namespace a selector selects, by the places of nodes.
type Counts struct {
	pods selected
	column
}

// Values are the numbers of the values that nodes have of one label, by their places. Of
// kubernetes.io/hostname it is only told whether it is there.
type Values struct {
	key   string
	known map[string]int32
	column
}

// Numbers of values.
const (
	// missing: the node does not have the label.
	missing = 0
	// empty is the number of "".
	empty = 1
)

// domainOf is the number of the domain in which nodes with the value are. Nodes that lack the label
// are in that of the empty value.
func domainOf(value int32) int32 { return max(value, empty) }

// Look is to be called first in each cycle: these are all nodes.
func (m *Memory) Look(nodes []fwk.NodeInfo) {
	m.looks++
	if !sameSlice(m.nodes, nodes) {
		m.nodes, m.places = nodes, make(map[fwk.NodeInfo]int, len(nodes))
		m.generations, m.changed = resized(m.generations, len(nodes)), resized(m.changed, len(nodes))
		for i, info := range nodes {
			m.places[info] = i
		}
	}
	for i, info := range nodes {
		if now := info.GetGeneration(); now != m.generations[i] || now == 0 {
			m.generations[i], m.changed[i] = now, m.looks
		}
	}
}

// resized returns a slice of that length: cut off, or with zeros added.
func resized[T any](s []T, length int) []T {
	s = s[:min(len(s), length)]
	return append(s, make([]T, length-len(s))...)
}

// sameSlice says whether both are the same piece of memory. kube-scheduler makes a new list
// whenever a node comes or goes.
func sameSlice(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// elsewhere is the place of a node that is not among those looked at.
const elsewhere = -1

func (m *Memory) placeOf(info fwk.NodeInfo) int {
	if place, ok := m.places[info]; ok {
		return place
	}
	return elsewhere
}

// Counts returns what a selector selects on the nodes that are looked at.
func (m *Memory) Counts(namespace string, selector labels.Selector) *Counts {
	key := namespace + "/" + selector.String()
	c := m.counts[key]
	if c == nil {
		if m.counts == nil {
			m.counts = map[string]*Counts{}
		}
		c = &Counts{pods: selectedBy(namespace, selector)}
		dropOldest(m.counts, maxSelectors, func(c *Counts) int64 { return c.asked })
		m.counts[key] = c
	}
	m.update(&c.column, func(info fwk.NodeInfo) int32 { return int32(c.pods.count(info)) })
	return c
}

// Values returns the values of a label on the nodes that are looked at.
func (m *Memory) Values(key string) *Values {
	v := m.values[key]
	if v == nil || len(v.known) > 2*len(m.nodes)+2 { // most of them are of nodes that are gone
		if m.values == nil {
			m.values = map[string]*Values{}
		}
		delete(m.values, key)
		v = &Values{key: key, known: map[string]int32{"": empty}}
		dropOldest(m.values, maxKeys, func(v *Values) int64 { return v.asked })
		m.values[key] = v
	}
	for _, place := range m.stale(&v.column) {
		v.numbers[place] = v.read(m.nodes[place])
	}
	return v
}

// dropOldest makes room for one more.
func dropOldest[T any](in map[string]T, most int, asked func(T) int64) {
	if len(in) < most {
		return
	}
	oldest, found := "", false
	for key, one := range in {
		if !found || asked(one) < asked(in[oldest]) {
			oldest, found = key, true
		}
	}
	delete(in, oldest)
}

// stale returns the places of nodes whose numbers in a column no longer hold, and takes it that the
// caller renews these at once. They hold until the next call.
func (m *Memory) stale(c *column) []int {
	if len(c.numbers) != len(m.nodes) {
		c.numbers = resized(c.numbers, len(m.nodes))
	}
	places := m.space[:0]
	for place, changed := range m.changed {
		if changed > c.asked {
			places = append(places, place)
		}
	}
	c.asked, m.space = m.looks, places
	return places
}

// fewStale is up to how many nodes it does not pay to go through them in parallel.
const fewStale = 64

// update asks the nodes that have changed.
func (m *Memory) update(c *column, ask func(fwk.NodeInfo) int32) {
	stale := m.stale(c)
	one := func(i int) { c.numbers[stale[i]] = ask(m.nodes[stale[i]]) }
	if m.Parallelizer != nil && len(stale) > fewStale {
		m.Parallelizer.Until(context.Background(), len(stale), one, "PodTopologySpread")
		return
	}
	for i := range stale {
		one(i)
	}
}

// At returns how many pods there are on the node of that place.
func (c *Counts) At(place int) int { return int(c.at(place)) }

func (c *Counts) of(info fwk.NodeInfo, place int) int {
	if place == elsewhere {
		return c.pods.count(info)
	}
	return c.At(place)
}

// At returns the number of the value that the node of that place has. Nodes with the same number
// have the same value, or both have none.
func (v *Values) At(place int) int32 { return v.at(place) }

// Numbers is what the number of a value is less than.
func (v *Values) Numbers() int { return len(v.known) + 1 }

func (v *Values) of(info fwk.NodeInfo, place int) int32 {
	if place == elsewhere {
		return v.read(info)
	}
	return v.At(place)
}

func (v *Values) read(info fwk.NodeInfo) int32 {
	value, has := info.Node().Labels[v.key]
	switch {
	case !has:
		return missing
	case v.key == corev1.LabelHostname:
		return empty
	}
	number, known := v.known[value]
	if !known {
		number = int32(len(v.known)) + 1
		v.known[value] = number
	}
	return number
}

// selected are the pods of a namespace that a selector selects.
type selected struct {
	namespace string
	selector  labels.Selector
	// labels are all that the selector asks for; nil where it asks for something else. Comparing
	// them is quicker than Selector.Matches.
	labels []label
}

type label struct{ key, value string }

func selectedBy(namespace string, selector labels.Selector) selected {
	s := selected{namespace: namespace, selector: selector}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return s
	}
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		if op := r.Operator(); len(values) != 1 || op != selection.Equals && op != selection.DoubleEquals && op != selection.In {
			s.labels = nil
			return s
		}
		s.labels = append(s.labels, label{r.Key(), values[0]})
	}
	return s
}

// count counts the pods on a node as the plugin does (countPodsMatchSelector).
func (s *selected) count(info fwk.NodeInfo) (count int) {
	if s.selector.Empty() {
		return 0
	}
	for _, p := range info.GetPods() {
		if pod := p.GetPod(); pod.Namespace == s.namespace && pod.DeletionTimestamp == nil && s.selects(pod.Labels) {
			count++
		}
	}
	return count
}

func (s *selected) selects(of map[string]string) bool {
	for _, want := range s.labels {
		if value, has := of[want.key]; !has || value != want.value {
			return false
		}
	}
	return s.labels != nil || s.selector.Matches(labels.Set(of))
}
