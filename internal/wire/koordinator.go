package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/berth-dev/berth/api/lenient"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Koordinator's annotations and labels, as of July 2026. In Berth, a value that Koordinator does
// not define is an error. Koordinator itself panics if it reads an unknown policy.
const (
	koordinatorQoS     = "koordinator.sh/qosClass"
	koordinatorNUMA    = "scheduling.koordinator.sh/numa-topology-spec"
	koordinatorCPUs    = "scheduling.koordinator.sh/resource-spec"
	koordinatorLabels  = "node.koordinator.sh/"
	koordinatorPolicy  = koordinatorLabels + "numa-topology-policy"
	koordinatorBind    = koordinatorLabels + "cpu-bind-policy"
	koordinatorFill    = koordinatorLabels + "numa-allocate-strategy"
	koordinatorMemory  = koordinatorLabels + "numa-memory-policy"
	maxKoordinatorText = 4 << 10
)

// KoordinatorStatusAnnotation has a decision in the format that koordlet reads.
const KoordinatorStatusAnnotation = "scheduling.koordinator.sh/resource-status"

// koordinatorPolicies maps Koordinator's names of policies to Berth's rules. A name without a
// suffix has scope pod. The suffixes PodLevel and ContainerLevel name the scopes pod and container.
var koordinatorPolicies = map[string]placement.Rules{
	"":                             {},
	"None":                         {Policy: placement.PolicyNone},
	"BestEffort":                   {Policy: placement.PolicyBestEffort, Scope: placement.PodScope},
	"BestEffortPodLevel":           {Policy: placement.PolicyBestEffort, Scope: placement.PodScope},
	"BestEffortContainerLevel":     {Policy: placement.PolicyBestEffort, Scope: placement.ContainerScope},
	"Restricted":                   {Policy: placement.PolicyRestricted, Scope: placement.PodScope},
	"RestrictedPodLevel":           {Policy: placement.PolicyRestricted, Scope: placement.PodScope},
	"RestrictedContainerLevel":     {Policy: placement.PolicyRestricted, Scope: placement.ContainerScope},
	"SingleNUMANode":               {Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope},
	"SingleNUMANodePodLevel":       {Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope},
	"SingleNUMANodeContainerLevel": {Policy: placement.PolicySingleNUMANode, Scope: placement.ContainerScope},
}

// koordinatorBinds maps the values of the node label about CPU binding to rules.
var koordinatorBinds = map[string]joint.Rules{
	"":              {},
	"None":          {},
	"FullPCPUsOnly": {Bind: joint.FullCores, BindHow: joint.Required},
	"SpreadByPCPUs": {Bind: joint.Spread, BindHow: joint.Required},
}

const koordinatorPoliciesWanted = "None, BestEffort, Restricted or SingleNUMANode"

// koordinatorNUMASpec is the value of the annotation numa-topology-spec. koordinatorCPUSpec is the
// value of resource-spec.
type koordinatorNUMASpec struct {
	Policy    string `json:"numaTopologyPolicy"`
	Exclusive string `json:"singleNUMANodeExclusive"`
}

type koordinatorCPUSpec struct {
	Required  string `json:"requiredCPUBindPolicy"`
	Preferred string `json:"preferredCPUBindPolicy"`
	Exclusive string `json:"preferredCPUExclusivePolicy"`
}

// ReadKoordinatorRules reads a pod's rules from Koordinator's annotations. Pods of the classes LSE
// and LSR ask for exclusive CPUs. Pods that have no class and are not Guaranteed do so if ownsCPUs
// returns true. Pods of the classes LS and BE ask for CPU time instead of exclusive CPUs. As in
// Koordinator, resource-spec applies only to LSE and LSR, but it is checked for all pods. The error
// is a *FieldError.
func ReadKoordinatorRules(pod *corev1.Pod) (placement.Rules, error) {
	r := koordinatorReader{fieldErrors(podName(pod)), pod}
	rules, err := r.policy()
	if err != nil {
		return placement.Rules{}, err
	}
	cpus, err := r.cpus()
	if err != nil {
		return placement.Rules{}, err
	}
	if rules.Devices, err = r.devices(); err != nil {
		return placement.Rules{}, err
	}
	switch class := pod.Labels[koordinatorQoS]; class {
	case "":
		if ownsCPUs(pod, rules.Policy) {
			rules.CPUs = joint.Rules{Bind: joint.FullCores, BindHow: joint.Preferred}
		}
	case "SYSTEM":
	case "LSE", "LSR":
		if err := r.wholeCPUs(class); err != nil {
			return placement.Rules{}, err
		}
		rules.CPUs = cpus
	case "LS", "BE":
		rules.Shares = joint.Preferred
	default:
		return placement.Rules{}, r.at(field.NewPath("metadata", "labels").Key(koordinatorQoS), class, "LSE, LSR, LS, BE or SYSTEM")
	}
	return rules, nil
}

// ownsCPUs reports whether a pod that has no class and is not Guaranteed gets exclusive CPUs. This
// is so if it names a policy other than None, if the CPU limit of every container with a CPU
// request equals the request, and if some container has a limit of whole CPUs (the first two
// examples of proposal 20240131).
func ownsCPUs(pod *corev1.Pod, p placement.Policy) bool {
	if p <= placement.PolicyNone || isGuaranteed(pod) {
		return false
	}
	asks := false
	for _, c := range Containers(pod) {
		limit, limits := c.Resources.Limits[corev1.ResourceCPU]
		q, requests := c.Resources.Requests[corev1.ResourceCPU]
		if requests && q.Sign() > 0 && q.Cmp(limit) != 0 {
			return false
		}
		asks = asks || limits && limit.Sign() > 0 && limit.MilliValue()%1000 == 0
	}
	return asks
}

// wholeCPUs returns an error if a container of the pod requests a fraction of a CPU, although the
// pod's class has exclusive CPUs. Koordinator requires only that the sum over the pod is a whole
// number of CPUs (proposal 20220530), but Berth assigns CPUs to containers.
func (r koordinatorReader) wholeCPUs(class string) error {
	for at, c := range Containers(r.pod) {
		kind := "requests"
		q, said := c.Resources.Requests[corev1.ResourceCPU]
		if !said {
			q, kind = c.Resources.Limits[corev1.ResourceCPU], "limits"
		}
		if q.MilliValue()%1000 != 0 {
			return r.at(at.Path().Child("resources", kind).Key("cpu"), &q, "a whole number of CPUs: containers of class "+class+" have CPUs of their own")
		}
	}
	return nil
}

// SpeaksKoordinator reports whether the pod has Koordinator's annotations about its placement, or a
// class of Koordinator (label koordinatorQoS).
func SpeaksKoordinator(pod *corev1.Pod) bool {
	for _, key := range koordinatorSpoken {
		if _, said := pod.Annotations[key]; said {
			return true
		}
	}
	_, said := pod.Labels[koordinatorQoS]
	return said
}

// koordinatorSpoken are the Koordinator annotations about a pod's placement that Berth reads.
var koordinatorSpoken = []string{koordinatorNUMA, koordinatorCPUs, koordinatorJoint, koordinatorHint}

// withKoordinator adds the rules in the pod's Koordinator annotations to own, the rules in its
// other annotations. If both name a policy, it must be the same policy.
func withKoordinator(pod *corev1.Pod, own placement.Rules, said *Said) (placement.Rules, error) {
	if !SpeaksKoordinator(pod) {
		return own, nil
	}
	r, err := ReadKoordinatorRules(pod)
	if err != nil {
		return r, err
	}
	said.inKoordinators(pod, own)
	if own == (placement.Rules{}) {
		return r, nil
	}
	if r.Policy != placement.NodePolicy && r.Policy != own.Policy {
		return placement.Rules{}, fieldErrors(podName(pod)).at(annotation(koordinatorNUMA), pod.Annotations[koordinatorNUMA],
			"the policy "+own.Policy.String()+", which the pod asks for in another annotation, or only one of the two annotations")
	}
	own.CPUs, own.Shares, own.Devices = r.CPUs, r.Shares, r.Devices
	return own, nil
}

// inKoordinators records in s which rules come from Koordinator keys. The argument own has the
// rules in the pod's other annotations.
func (s *Said) inKoordinators(pod *corev1.Pod, own placement.Rules) {
	is := func(key string) bool { _, is := pod.Annotations[key]; return is }
	if own == (placement.Rules{}) && is(koordinatorNUMA) {
		s.policy = koordinatorNUMA
	}
	if _, is := pod.Labels[koordinatorQoS]; is {
		s.cpus = koordinatorQoS
	}
	if class := pod.Labels[koordinatorQoS]; is(koordinatorCPUs) && (class == "LSE" || class == "LSR") {
		s.cpus, s.exclusive = koordinatorCPUs, koordinatorCPUs
	}
	if is(koordinatorHint) {
		s.devices, s.functions = koordinatorHint, koordinatorHint
	}
	if is(koordinatorJoint) {
		s.devices = koordinatorJoint
	}
}

type koordinatorReader struct {
	fieldErrors
	pod *corev1.Pod
}

// parse reads the JSON of an annotation. The result found is false if the pod does not have the
// annotation.
func (r koordinatorReader) parse(key string, into any) (found bool, err error) {
	text, ok := r.pod.Annotations[key]
	if !ok {
		return false, nil
	}
	if len(text) > maxKoordinatorText {
		return true, r.at(annotation(key), text, fmt.Sprintf("at most %d bytes, not %d", maxKoordinatorText, len(text)))
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), into)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return true, r.at(annotation(key), text, "JSON as Koordinator documents it: "+lenient.Plain(err))
	}
	return true, nil
}

func (r koordinatorReader) policy() (placement.Rules, error) {
	var spec koordinatorNUMASpec
	if found, err := r.parse(koordinatorNUMA, &spec); !found || err != nil {
		return placement.Rules{}, err
	}
	at := annotation(koordinatorNUMA)
	rules, ok := koordinatorPolicies[spec.Policy]
	if !ok {
		return placement.Rules{}, r.at(at.Child("numaTopologyPolicy"), spec.Policy, koordinatorPoliciesWanted)
	}
	switch spec.Exclusive {
	case "", "Preferred":
	case "Required":
		return placement.Rules{}, r.at(at.Child("singleNUMANodeExclusive"), spec.Exclusive,
			"Preferred or nothing: Berth cannot keep pods on one NUMA node apart from pods on several")
	default:
		return placement.Rules{}, r.at(at.Child("singleNUMANodeExclusive"), spec.Exclusive, "Preferred or nothing")
	}
	return rules, nil
}

// koordinatorPodBinds maps the CPU bind policies of a pod. Default is the default of Koordinator's
// scheduler. With None, that scheduler binds no CPUs (PreFilter in its plugin nodenumaresource).
var koordinatorPodBinds = map[string]joint.Bind{
	"None": joint.BindAny, "Default": joint.FullCores, "FullPCPUs": joint.FullCores, "SpreadByPCPUs": joint.Spread,
}

// cpus reads resource-spec. Without a bind policy, cpus prefers whole cores, as Koordinator's
// scheduler does. With the policy None, the result is the zero value, and exclusive policies have
// no effect.
func (r koordinatorReader) cpus() (joint.Rules, error) {
	var spec koordinatorCPUSpec
	rules := joint.Rules{Bind: joint.FullCores, BindHow: joint.Preferred}
	if found, err := r.parse(koordinatorCPUs, &spec); !found || err != nil {
		return rules, err
	}
	at := annotation(koordinatorCPUs)
	for _, wish := range []struct {
		name, value string
		how         joint.Strength
	}{{"preferredCPUBindPolicy", spec.Preferred, joint.Preferred}, {"requiredCPUBindPolicy", spec.Required, joint.Required}} {
		if wish.value == "" {
			continue
		}
		bind, known := koordinatorPodBinds[wish.value]
		if !known {
			return joint.Rules{}, r.at(at.Child(wish.name), wish.value, "None, Default, FullPCPUs or SpreadByPCPUs")
		}
		rules.Bind, rules.BindHow = bind, wish.how
	}
	switch spec.Exclusive {
	case "", "None", "Default": // the proposal calls None "Default"
	case "PCPULevel":
		rules.Exclusive, rules.ExclusiveHow = joint.ExclusiveCore, joint.Preferred
	case "NUMANodeLevel":
		rules.Exclusive, rules.ExclusiveHow = joint.ExclusiveNUMA, joint.Preferred
	default:
		return joint.Rules{}, r.at(at.Child("preferredCPUExclusivePolicy"), spec.Exclusive, "None, PCPULevel or NUMANodeLevel")
	}
	if rules.Bind == joint.BindAny {
		return joint.Rules{}, nil
	}
	return rules, nil
}

// KoordinatorNode has the rules that the Koordinator labels of a node ask for.
type KoordinatorNode struct {
	Rules    placement.Rules // policy and scope, for pods without their own
	CPUs     joint.Rules     // how CPUs are bound on the node
	Strategy joint.Strategy
}

// ReadKoordinatorNode reads the labels of a node where Berth decides. The error is a *FieldError.
func ReadKoordinatorNode(node *corev1.Node) (KoordinatorNode, error) {
	e := fieldErrors("Node " + node.Name)
	label := func(key string) *field.Path { return field.NewPath("metadata", "labels").Key(key) }
	var n KoordinatorNode
	text := node.Labels[koordinatorPolicy]
	var ok bool
	if n.Rules, ok = koordinatorPolicies[text]; !ok {
		return KoordinatorNode{}, e.at(label(koordinatorPolicy), text, koordinatorPoliciesWanted)
	}
	switch text := node.Labels[koordinatorFill]; text {
	case "":
	case "MostAllocated":
		n.Strategy = joint.FillNodes
	case "LeastAllocated", "DistributeEvenly": // both fill the emptiest NUMA node first
		n.Strategy = joint.LeastAllocated
	default:
		return KoordinatorNode{}, e.at(label(koordinatorFill), text, "MostAllocated, LeastAllocated or DistributeEvenly")
	}
	if n.CPUs, ok = koordinatorBinds[node.Labels[koordinatorBind]]; !ok {
		return KoordinatorNode{}, e.at(label(koordinatorBind), node.Labels[koordinatorBind], "None, FullPCPUsOnly or SpreadByPCPUs")
	}
	return n, nil
}

// KoordinatorLabelsIgnored describes Koordinator's labels that have no effect on a node where a
// kubelet decides, because the kubelet does not do what they request. It returns "" if there are
// none, or if m is nil. It also returns "" if Berth decides on the node, because there
// ReadKoordinatorNode applies the labels, or returns an error that makes the node unusable.
func KoordinatorLabelsIgnored(node *corev1.Node, m *placement.Model) string {
	if m == nil || m.Decides() {
		return ""
	}
	var vain []string
	for _, key := range []string{koordinatorPolicy, koordinatorBind, koordinatorFill, koordinatorMemory} {
		if text := node.Labels[key]; text != "" && !keepsLabel(m, key, text) {
			vain = append(vain, key+"="+text)
		}
	}
	if len(vain) == 0 {
		return ""
	}
	own := m.Rules()
	return fmt.Sprintf("%s (the kubelet decides on this node, with policy %s and scope %s)", strings.Join(vain, ", "), own.Policy, own.Scope)
}

// keepsLabel reports whether a kubelet does what a label requests.
func keepsLabel(m *placement.Model, key, text string) bool {
	switch key {
	case koordinatorPolicy:
		rules, known := koordinatorPolicies[text]
		return known && m.Keeps(rules)
	case koordinatorBind:
		cpus, known := koordinatorBinds[text]
		return known && m.Keeps(placement.Rules{CPUs: cpus})
	}
	return false
}

// resourceStatus is the value of the annotation resource-status.
type resourceStatus struct {
	CPUSet string              `json:"cpuset,omitempty"`
	NUMA   []numaNodeResources `json:"numaNodeResources,omitempty"`
}

type numaNodeResources struct {
	Node      int                          `json:"node"`
	Resources map[string]resource.Quantity `json:"resources"`
}

// WriteKoordinatorStatus returns a decision in koordlet's format: one CPU set for the pod, and the
// pod's amounts on each NUMA node. Memory on several NUMA nodes counts for the lowest of them.
// WriteKoordinatorStatus omits init containers, because they do not run at the same time as the
// other containers.
func WriteKoordinatorStatus(d *placement.Decision, m *topology.Machine) (string, error) {
	var cpus topology.CPUSet
	milli, bytes := map[topology.NUMAID]int64{}, map[topology.NUMAID]map[string]int64{}
	for i := range d.Containers {
		c := &d.Containers[i]
		if c.Kind == placement.Init {
			continue
		}
		cpus = cpus.Or(&c.CPUs)
		for _, s := range c.Shares {
			milli[s.NUMA] += s.MilliCPU
		}
		for _, b := range c.Memory {
			if b.NUMA == 0 {
				continue
			}
			if bytes[b.NUMA.Lowest()] == nil {
				bytes[b.NUMA.Lowest()] = map[string]int64{}
			}
			bytes[b.NUMA.Lowest()][b.Resource] += int64(min(b.Bytes, 1<<62))
		}
	}
	out := resourceStatus{CPUSet: cpus.String()}
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		amounts := map[string]resource.Quantity{}
		if total := milli[n.ID] + 1000*int64(n.CPUs.AndLen(&cpus)); total > 0 {
			amounts["cpu"] = *resource.NewMilliQuantity(total, resource.DecimalSI)
		}
		for name, b := range bytes[n.ID] {
			amounts[name] = *resource.NewQuantity(b, resource.BinarySI)
		}
		if len(amounts) > 0 {
			out.NUMA = append(out.NUMA, numaNodeResources{int(n.ID), amounts})
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("resource-status of pod %s: %w", d.UID, err)
	}
	return string(text), nil
}
