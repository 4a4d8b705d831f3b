package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Node is the content of a NodeTopology, in the types of packages topology and placement.
type Node struct {
	Name   string
	Spec   NodeSpec
	Report Report
}

// NodeSpec is the machine and the configuration of a Node: the input of placement.NewModel. Most of
// it does not change until the kubelet restarts.
type NodeSpec struct {
	Machine   *topology.Machine
	View      *placement.KubeletView
	Config    placement.Config
	Authority v1alpha1.Authority
	// Koordlet means that koordlet carries out Berth's decisions on the node.
	Koordlet bool
	// KubeletVersion is the full release, such as "v1.36.3"; Config.Version is its minor number.
	KubeletVersion string
}

// PinsCPUs reports whether pods can have exclusive CPUs on the node.
func (s *NodeSpec) PinsCPUs() bool {
	return s.Config.CPUManagerPolicy == "static" || s.Authority == v1alpha1.AuthorityBerth
}

// Report has the status of a NodeTopology. Its Snapshot is the input of placement.Model.StateOf.
type Report struct {
	// Sequence is the number of the report in its NodeTopology object. It is 0 if there is no
	// report yet.
	Sequence int64
	// Observed is the time of the report by the node's clock.
	Observed time.Time
	// KubeletStarted is the time when the kubelet started, by the node's clock, to the second. It
	// is zero if the report does not have it.
	KubeletStarted time.Time
	Snapshot       placement.Snapshot
	// Pods has additional facts about the pods in Snapshot.Pods, in the same order.
	Pods []ReportedPod
	// Conditions are the conditions that the agent wrote.
	Conditions []metav1.Condition
}

// ReportedPod has the facts that a report has about a pod, except the pod's resources.
type ReportedPod struct {
	// Namespace and Name are "" if the report does not name the pod.
	Namespace, Name string
	// State is "" for an admitted pod that has not ended.
	State v1alpha1.PodState
}

// Ready returns the report's condition Ready. A report without this condition is not ready.
func (r *Report) Ready() metav1.Condition {
	if c := meta.FindStatusCondition(r.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NotReported",
		Message: "the agent of this node has not reported yet",
	}
}

// ReadNodeTopology translates a NodeTopology. If it is invalid or contradicts itself, the error is
// a *FieldError. If another release of Berth wrote it in another format, the error is an
// *OtherFormError.
func ReadNodeTopology(nt *v1alpha1.NodeTopology) (Node, error) {
	spec, err := ReadNodeSpec(nt)
	if err != nil {
		return Node{}, err
	}
	report, err := ReadReport(nt)
	if err != nil {
		return Node{}, err
	}
	if err := CheckReport(&spec, &report, nt.Name); err != nil {
		return Node{}, err
	}
	report.Complete(&spec)
	return Node{Name: nt.Name, Spec: spec, Report: report}, nil
}

// ReadNodeSpec translates only the spec. The spec changes rarely, so callers should keep the
// result. The error is a *FieldError, or an *OtherFormError about the whole object.
func ReadNodeSpec(nt *v1alpha1.NodeTopology) (NodeSpec, error) {
	if nt.Malformed != "" {
		return NodeSpec{}, &OtherFormError{nt.Malformed}
	}
	r := specReader{fieldErrors("NodeTopology " + nt.Name)}
	return r.spec(&nt.Spec)
}

// WriteNodeTopology translates a Node. It returns an error if a NodeTopology cannot represent the
// Node: for example, because an amount exceeds an int64, or because the view differs from the
// machine in more than memory, huge pages, and the numbers of cores and sockets.
func WriteNodeTopology(n *Node) (*v1alpha1.NodeTopology, error) {
	spec, err := WriteNodeSpec(n.Name, &n.Spec)
	if err != nil {
		return nil, err
	}
	return WriteReport(n.Name, spec, &n.Report)
}

// WriteNodeSpec translates only the spec of a node. The spec changes rarely, so callers can keep
// the result.
func WriteNodeSpec(node string, spec *NodeSpec) (v1alpha1.NodeTopologySpec, error) {
	return writer{fieldErrors("NodeTopology " + node)}.spec(spec)
}

// WriteReport translates a report. The result has the spec.
func WriteReport(node string, spec v1alpha1.NodeTopologySpec, r *Report) (*v1alpha1.NodeTopology, error) {
	status, err := writer{fieldErrors("NodeTopology " + node)}.status(r)
	if err != nil {
		return nil, err
	}
	nt := &v1alpha1.NodeTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeTopology"},
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       spec,
		Status:     status,
	}
	if at := r.KubeletStarted; !at.IsZero() {
		nt.Annotations = map[string]string{v1alpha1.KubeletStartedAnnotation: at.UTC().Format(time.RFC3339)}
	}
	return nt, nil
}

// specReader reads a spec; its methods return *FieldErrors about the object.
type specReader struct{ fieldErrors }

func (r specReader) spec(s *v1alpha1.NodeTopologySpec) (NodeSpec, error) {
	at := field.NewPath("spec")
	m, err := topology.Parse(s.Machine)
	if err != nil {
		return NodeSpec{}, r.at(at.Child("machine"), s.Machine, "a compact machine string: "+err.Error())
	}
	if s.Devices != "" {
		if m, err = m.WithDevices(s.Devices); err != nil {
			return NodeSpec{}, r.at(at.Child("devices"), s.Devices, "items dev and link of a machine string: "+err.Error())
		}
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		return NodeSpec{}, r.at(at.Child("machine"), s.Machine, "a machine that a kubelet can run on: "+err.Error())
	}
	if err := r.view(s.KubeletView, view); err != nil {
		return NodeSpec{}, err
	}
	version, err := ReadKubeletVersion(s.KubeletVersion)
	if err != nil {
		return NodeSpec{}, r.at(at.Child("kubeletVersion"), s.KubeletVersion, `a release like "v1.36.3"`)
	}
	if s.Authority != v1alpha1.AuthorityKubelet && s.Authority != v1alpha1.AuthorityBerth {
		return NodeSpec{}, r.at(at.Child("authority"), s.Authority, `"kubelet" or "berth"`)
	}
	koordlet := s.Enforcer == v1alpha1.EnforcerKoordlet
	switch {
	case s.Enforcer != "" && s.Enforcer != v1alpha1.EnforcerAgent && !koordlet:
		return NodeSpec{}, r.at(at.Child("enforcer"), s.Enforcer, `"agent" or "koordlet"`)
	case koordlet && s.Authority != v1alpha1.AuthorityBerth:
		return NodeSpec{}, r.at(at.Child("enforcer"), s.Enforcer, "no enforcer with authority kubelet: the kubelet carries out its own decisions")
	}
	config, err := r.config(s)
	if err != nil {
		return NodeSpec{}, err
	}
	config.Version, config.MemoryStays = version, koordlet
	if s.Authority == v1alpha1.AuthorityBerth {
		config.Authority = placement.AuthorityBerth
	}
	if err := r.defaults(at.Child("defaults"), s.Defaults, &config); err != nil {
		return NodeSpec{}, err
	}
	return NodeSpec{Machine: m, View: view, Config: config, Authority: s.Authority, Koordlet: koordlet, KubeletVersion: s.KubeletVersion}, nil
}

// strategies maps the spelling of a strategy in a NodeTopology to its value.
var strategies = map[string]joint.Strategy{"": joint.MostAllocated, "MostAllocated": joint.FillNodes, "LeastAllocated": joint.LeastAllocated}

var bindWords = map[joint.Bind]string{joint.FullCores: "full-cores", joint.Spread: "spread"}

// binds maps the spelling of a CPU binding in a NodeTopology to its rules.
var binds = map[string]joint.Rules{
	"": {}, "full-cores": {Bind: joint.FullCores, BindHow: joint.Required}, "spread": {Bind: joint.Spread, BindHow: joint.Required},
}

// defaults reads the rules for pods without annotations.
func (r specReader) defaults(at *field.Path, d *v1alpha1.Defaults, c *placement.Config) error {
	if d == nil {
		return nil
	}
	var ok bool
	if c.Default.Policy, ok = placement.ParsePolicy(d.Policy); !ok && d.Policy != "" {
		return r.at(at.Child("policy"), d.Policy, "none, best-effort, restricted or single-numa-node")
	}
	if c.Default.Scope, ok = placement.ParseScope(d.Scope); !ok && d.Scope != "" {
		return r.at(at.Child("scope"), d.Scope, "container or pod")
	}
	if c.Default.CPUs, ok = binds[d.CPUs]; !ok {
		return r.at(at.Child("cpus"), d.CPUs, "full-cores or spread")
	}
	if c.Strategy, ok = strategies[d.Strategy]; !ok {
		return r.at(at.Child("strategy"), d.Strategy, "MostAllocated or LeastAllocated")
	}
	return nil
}

// writeDefaults returns nil if the configuration has no defaults.
func writeDefaults(c *placement.Config) *v1alpha1.Defaults {
	d := v1alpha1.Defaults{Policy: c.Default.Policy.String(), Scope: c.Default.Scope.String()}
	d.CPUs = bindWords[c.Default.CPUs.Bind]
	switch c.Strategy {
	case joint.FillNodes:
		d.Strategy = "MostAllocated"
	case joint.LeastAllocated:
		d.Strategy = "LeastAllocated"
	}
	if d == (v1alpha1.Defaults{}) {
		return nil
	}
	return &d
}

var releasePattern = regexp.MustCompile(`^v1\.([0-9]{1,3})(\.[0-9]{1,4})?([-+].{0,60})?$`)

// ReadKubeletVersion reads a kubelet's release as Node.status.nodeInfo.kubeletVersion spells it
// ("v1.36.3", "v1.35.1-eks-1a2b3c"). placement.NewModel checks whether the engine knows the
// release.
func ReadKubeletVersion(text string) (placement.Version, error) {
	m := releasePattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("kubelet version %s: want a release like \"v1.36.3\"", clip.Quoted(text))
	}
	minor, err := strconv.ParseUint(m[1], 10, 8)
	if err != nil || minor == 0 {
		return 0, fmt.Errorf("kubelet version %s: the minor number must be between 1 and 255", clip.Quoted(text))
	}
	return placement.Version(minor), nil
}

// view applies the differences in d (spec.kubeletView) to the view that was computed from the
// machine.
func (r specReader) view(d *v1alpha1.KubeletView, view *placement.KubeletView) error {
	if d == nil {
		return nil
	}
	if d.NumCores != nil {
		view.NumCores = int(*d.NumCores)
	}
	if d.NumSockets != nil {
		view.NumSockets = int(*d.NumSockets)
	}
	at := field.NewPath("spec", "kubeletView", "memory")
	for i := range d.Memory {
		m := &d.Memory[i]
		node := viewNode(view, topology.NUMAID(m.NUMA))
		if m.NUMA < 0 || node == nil {
			return r.at(at.Index(i).Child("numa"), m.NUMA, "a NUMA node of spec.machine")
		}
		if m.Bytes < 0 {
			return r.at(at.Index(i).Child("bytes"), m.Bytes, "a size that is not negative")
		}
		node.MemoryBytes, node.HugePages = uint64(m.Bytes), nil
		for j, h := range m.HugePages {
			if h.PageBytes <= 0 || h.Count < 0 {
				return r.at(at.Index(i).Child("hugePages").Index(j), h, "a positive page size and a count that is not negative")
			}
			node.HugePages = append(node.HugePages, topology.HugePages{PageBytes: uint64(h.PageBytes), Count: uint64(h.Count)})
		}
	}
	return nil
}

// viewNode returns the view's NUMA node with the given id, or nil if there is none.
func viewNode(view *placement.KubeletView, id topology.NUMAID) *placement.ViewNode {
	for i := range view.Nodes {
		if view.Nodes[i].ID == id {
			return &view.Nodes[i]
		}
	}
	return nil
}

func (r specReader) config(s *v1alpha1.NodeTopologySpec) (placement.Config, error) {
	c := placement.Config{
		CPUManagerPolicy:             s.CPUManager.Policy,
		CPUManagerPolicyOptions:      optionsOf[string](s.CPUManager.Options),
		ReservedSystemCPUs:           string(s.CPUManager.ReservedCPUs),
		ReservedMilliCPU:             s.CPUManager.ReservedMilliCPU,
		MemoryManagerPolicy:          s.MemoryManager.Policy,
		TopologyManagerPolicy:        s.TopologyManager.Policy,
		TopologyManagerScope:         s.TopologyManager.Scope,
		TopologyManagerPolicyOptions: optionsOf[string](s.TopologyManager.Options),
		FeatureGates:                 s.FeatureGates,
	}
	at := field.NewPath("spec", "memoryManager")
	var err error
	if c.NodeReserved, err = r.amounts(at.Child("nodeReserved"), s.MemoryManager.NodeReserved); err != nil {
		return c, err
	}
	for i, reserved := range s.MemoryManager.Reserved {
		at := at.Child("reserved").Index(i)
		if reserved.NUMA < 0 || reserved.NUMA >= topology.MaxNUMANodes {
			return c, r.at(at.Child("numa"), reserved.NUMA, "a NUMA node between 0 and 63")
		}
		limits, err := r.amounts(at.Child("limits"), reserved.Limits)
		if err != nil {
			return c, err
		}
		c.ReservedMemory = append(c.ReservedMemory, placement.ReservedMemory{NUMA: topology.NUMAID(reserved.NUMA), Limits: limits})
	}
	return c, nil
}

func (r specReader) amounts(at *field.Path, m map[string]v1alpha1.Bytes) (map[string]uint64, error) {
	if m == nil {
		return nil, nil
	}
	out := make(map[string]uint64, len(m))
	for name, bytes := range m {
		if bytes < 0 {
			return nil, r.at(at.Key(name), bytes, "a size that is not negative")
		}
		out[name] = uint64(bytes)
	}
	return out, nil
}

// optionsOf converts options between the types of the API and of the engine.
func optionsOf[To, From ~string](m map[string]From) map[string]To {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]To, len(m))
	for k, v := range m {
		out[k] = To(v)
	}
	return out
}
