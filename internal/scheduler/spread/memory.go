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
// which values labels have. A node's Generation, which no two states of NodeInfos share, says
// whether that still holds. The zero value is useful. Only the goroutine that schedules uses it.
type Memory struct {
	// Parallelizer counts pods on many nodes at once; nil for one after another.
	Parallelizer fwk.Parallelizer

	nodes       []fwk.NodeInfo
	generations []int64
	places      map[fwk.NodeInfo]int
	counts      map[string]*Counts
	values      map[string]*Values
	asked       int64 // counts the questions
}

// told is a number that a node had at a generation.
type told struct {
	generation int64
	number     int32
}

// Counts are how many pods of a namespace a selector selects, by the places of nodes.
type Counts struct {
	pods  selected
	told  []told
	asked int64
}

// Values are the numbers of the values that nodes have of one label, by their places. Of
// kubernetes.io/hostname it is only told whether it is there.
type Values struct {
	key     string
	numbers map[string]int32
	told    []told
	asked   int64
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
	m.asked++
	if !sameSlice(m.nodes, nodes) {
		m.nodes, m.generations, m.places = nodes, make([]int64, len(nodes)), make(map[fwk.NodeInfo]int, len(nodes))
		for i, info := range nodes {
			m.places[info] = i
		}
	}
	for i, info := range nodes {
		m.generations[i] = info.GetGeneration()
	}
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
	c.asked = m.asked
	m.update(&c.told, func(info fwk.NodeInfo) int32 { return int32(c.pods.count(info)) })
	return c
}

// Values returns the values of a label on the nodes that are looked at.
func (m *Memory) Values(key string) *Values {
	v := m.values[key]
	if v == nil || len(v.numbers) > 2*len(m.nodes)+2 { // most of them are of nodes that are gone
		if m.values == nil {
			m.values = map[string]*Values{}
		}
		delete(m.values, key)
		v = &Values{key: key, numbers: map[string]int32{"": empty}}
		dropOldest(m.values, maxKeys, func(v *Values) int64 { return v.asked })
		m.values[key] = v
	}
	v.asked = m.asked
	for _, place := range m.stale(&v.told) {
		v.told[place] = told{m.generations[place], v.read(m.nodes[place])}
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

// stale are the places of nodes that have changed since they were told of.
func (m *Memory) stale(all *[]told) (places []int) {
	if missing := len(m.nodes) - len(*all); missing > 0 {
		*all = append(*all, make([]told, missing)...)
	}
	*all = (*all)[:len(m.nodes)]
	for place := range *all {
		if now := m.generations[place]; (*all)[place].generation != now || now == 0 {
			places = append(places, place)
		}
	}
	return places
}

// fewStale is up to how many nodes it does not pay to go through them in parallel.
const fewStale = 64

// update asks the nodes that have changed.
func (m *Memory) update(all *[]told, ask func(fwk.NodeInfo) int32) {
	stale := m.stale(all)
	one := func(i int) {
		place := stale[i]
		(*all)[place] = told{m.generations[place], ask(m.nodes[place])}
	}
	if m.Parallelizer != nil && len(stale) > fewStale {
		m.Parallelizer.Until(context.Background(), len(stale), one, "PodTopologySpread")
		return
	}
	for i := range stale {
		one(i)
	}
}

// At returns how many pods there are on the node of that place.
func (c *Counts) At(place int) int { return int(c.told[place].number) }

func (c *Counts) of(info fwk.NodeInfo, place int) int {
	if place == elsewhere {
		return c.pods.count(info)
	}
	return c.At(place)
}

// At returns the number of the value that the node of that place has. Nodes with the same number
// have the same value, or both have none.
func (v *Values) At(place int) int32 { return v.told[place].number }

// Numbers is what the number of a value is less than.
func (v *Values) Numbers() int { return len(v.numbers) + 1 }

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
	number, known := v.numbers[value]
	if !known {
		number = int32(len(v.numbers)) + 1
		v.numbers[value] = number
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
