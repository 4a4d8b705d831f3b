// Package spread scores nodes for a pod as PodTopologySpread of kube-scheduler does, bit for bit.
// The plugin goes through all pods of all nodes for every pod. This package remembers how many pods
// a selector selects on each node, and counts again where something has changed.
package spread

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Constraint is one that nodes are scored by (ScheduleAnyway), as the plugin reads it.
type Constraint struct {
	Key      string
	Selector labels.Selector
	MaxSkew  int32
	// HonorAffinity and HonorTaints say that pods do not count on nodes that the pod cannot have by
	// its node selector and required affinity, or by its tolerations.
	HonorAffinity, HonorTaints bool
}

// Gates are the feature gates that the plugin goes by, beside the locked ones.
type Gates struct {
	// MatchLabelKeys is MatchLabelKeysInPodTopologySpread.
	MatchLabelKeys bool
	// CompareTolerations is TaintTolerationComparisonOperators.
	CompareTolerations bool
}

// Asked are the constraints of the pod's author.
func Asked(pod *corev1.Pod, gates Gates) ([]Constraint, error) {
	var out []Constraint
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("topologySpreadConstraints[%d].labelSelector: %w", i, err)
		}
		if gates.MatchLabelKeys {
			selector = sameIn(c.MatchLabelKeys, pod.Labels, selector)
		}
		out = append(out, constraintOf(c, selector))
	}
	return out, nil
}

// Default are the constraints of a profile for a pod whose author has none. The selector selects
// the pods beside which the pod is spread; an empty one stands for none.
func Default(constraints []corev1.TopologySpreadConstraint, selector labels.Selector) []Constraint {
	if selector.Empty() {
		return nil
	}
	var out []Constraint
	for i := range constraints {
		if constraints[i].WhenUnsatisfiable == corev1.ScheduleAnyway {
			out = append(out, constraintOf(&constraints[i], selector))
		}
	}
	return out
}

// constraintOf has the defaults of filterTopologySpreadConstraints.
func constraintOf(c *corev1.TopologySpreadConstraint, selector labels.Selector) Constraint {
	return Constraint{
		Key: c.TopologyKey, Selector: selector, MaxSkew: c.MaxSkew,
		HonorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
		HonorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
	}
}

// sameIn narrows a selector to pods with the same values of some labels.
func sameIn(keys []string, has map[string]string, selector labels.Selector) labels.Selector {
	same := labels.Set{}
	for _, key := range keys {
		if value, ok := has[key]; ok {
			same[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(same) == 0 || !selectable {
		return selector
	}
	return labels.SelectorFromSet(same).Add(requirements...)
}

// Question is about the nodes for one pod.
type Question struct {
	Pod         *corev1.Pod
	Constraints []Constraint
	// Complete leaves out nodes that lack one of the keys. That is so except for pods that
	// kube-scheduler's own defaults spread.
	Complete bool
	Gates    Gates
	// All are the nodes of the snapshot. Taking are the nodes that take the pod: their number,
	// and the number of their domains, give the constraints their weights.
	All, Taking []fwk.NodeInfo
}

// Scores is the plugin's scores of nodes for a pod.
type Scores struct {
	memory      *Memory
	complete    bool
	constraints []weighed
}

// weighed is a constraint with what the plugin's PreScore finds out.
type weighed struct {
	Constraint
	counts *Counts
	values *Values
	// sums are the pods of each domain, by its number; nil where nodes are the domains.
	sums   []int64
	weight float64
}

// Ask prepares the scores of nodes for a pod, as the plugin's PreScore does. It returns nil where
// the plugin has nothing to say.
func (m *Memory) Ask(q *Question) *Scores {
	if len(q.All) == 0 || len(q.Constraints) == 0 {
		return nil
	}
	m.Look(q.All)
	s := &Scores{memory: m, complete: q.Complete}
	for _, c := range q.Constraints {
		w := weighed{Constraint: c, values: m.Values(c.Key), counts: m.Counts(q.Pod.Namespace, c.Selector)}
		s.constraints = append(s.constraints, w)
	}
	s.weigh(q.Taking)
	s.sum(q)
	return s
}

// podsIn returns the pods of a domain.
func (c *weighed) podsIn(domain int32) int64 {
	if int(domain) >= len(c.sums) { // that of a node which is not among those of the snapshot
		return 0
	}
	return c.sums[domain]
}

// weigh finds out what each constraint weighs.
func (s *Scores) weigh(taking []fwk.NodeInfo) {
	domains := make([]map[int32]struct{}, len(s.constraints))
	for i := range domains {
		domains[i] = map[int32]struct{}{}
	}
	scored := 0
	for _, info := range taking {
		place := s.memory.placeOf(info)
		if s.leftOut(info, place) {
			continue
		}
		scored++
		for i := range s.constraints {
			if c := &s.constraints[i]; c.Key != corev1.LabelHostname {
				domains[i][domainOf(c.values.of(info, place))] = struct{}{}
			}
		}
	}
	for i := range s.constraints {
		size := len(domains[i])
		if s.constraints[i].Key == corev1.LabelHostname {
			size = scored
		}
		s.constraints[i].weight = math.Log(float64(size + 2)) // topologyNormalizingWeight
	}
}

// sum counts the pods of each domain.
func (s *Scores) sum(q *Question) {
	required := nodeaffinity.GetRequiredNodeAffinity(q.Pod)
	picky := len(q.Pod.Spec.NodeSelector) > 0 || q.Pod.Spec.Affinity != nil && q.Pod.Spec.Affinity.NodeAffinity != nil
	for i := range s.constraints {
		c := &s.constraints[i]
		if c.Key == corev1.LabelHostname {
			continue
		}
		c.sums = make([]int64, c.values.Numbers())
		for place, info := range q.All {
			pods := c.counts.At(place)
			if pods == 0 || s.leftOut(info, place) {
				continue
			}
			if c.HonorAffinity && picky {
				if match, _ := required.Match(info.Node()); !match { // the plugin ignores what cannot be read, too
					continue
				}
			}
			if c.HonorTaints && !tolerates(q, info.Node()) {
				continue
			}
			c.sums[domainOf(c.values.At(place))] += int64(pods)
		}
	}
}

// tolerates says whether the pod tolerates the node's taints.
func tolerates(q *Question, node *corev1.Node) bool {
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, q.Pod.Spec.Tolerations, refuses, q.Gates.CompareTolerations)
	return !untolerated
}

func refuses(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// leftOut says whether the node lacks a key that it needs to be scored.
func (s *Scores) leftOut(info fwk.NodeInfo, place int) bool {
	if !s.complete {
		return false
	}
	for i := range s.constraints {
		if s.constraints[i].values.of(info, place) == missing {
			return true
		}
	}
	return false
}

// Of returns the scores of nodes that take the pod, from 0 to 100, as after NormalizeScore.
func (s *Scores) Of(nodes []fwk.NodeInfo) []int64 {
	scores := make([]int64, len(nodes))
	for i, info := range nodes {
		scores[i] = leftOut
		if place := s.memory.placeOf(info); !s.leftOut(info, place) {
			scores[i] = s.score(info, place)
		}
	}
	normalize(scores)
	return scores
}

// leftOut is the score of a node that is not scored.
const leftOut = -1

// normalize is the plugin's NormalizeScore.
func normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for _, score := range scores {
		if score != leftOut {
			least, most = min(least, score), max(most, score)
		}
	}
	for i, score := range scores {
		switch {
		case score == leftOut:
			scores[i] = 0
		case most == 0:
			scores[i] = fwk.MaxScore
		default:
			scores[i] = fwk.MaxScore * (most + least - score) / most
		}
	}
}

// score is the plugin's Score: the more pods, the higher.
func (s *Scores) score(info fwk.NodeInfo, place int) int64 {
	var score float64
	for i := range s.constraints {
		c := &s.constraints[i]
		value := c.values.of(info, place)
		if value == missing {
			continue
		}
		var pods int64
		if c.sums == nil {
			pods = int64(c.counts.of(info, place))
		} else {
			pods = c.podsIn(domainOf(value))
		}
		score += float64(pods)*c.weight + float64(c.MaxSkew-1)
	}
	return int64(math.Round(score))
}
