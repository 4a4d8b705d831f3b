package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// PlacementAnnotation has the scheduler's decision about a pod. The Binding sets it, in the same
// write that binds the pod. Later, only the scheduler can replace it, and only after a resize in
// place (admission policy placement-by-binding, in deploy/policies).
const PlacementAnnotation = "berth.dev/placement"

// HasPlacement reports whether the pod has a decision, valid or not.
func HasPlacement(pod *corev1.Pod) bool {
	_, found := pod.Annotations[PlacementAnnotation]
	return found
}

// MaxPlacementBytes is the maximum length of the annotation's value. The API server's own limit is
// 256 KiB for all annotations of an object together. The decision for 100 containers with 16
// devices each needs about half of MaxPlacementBytes.
const MaxPlacementBytes = 128 << 10

const (
	placementVersion    = 1
	maxDevicesPerAnswer = 1024
	maxBlocks           = 64
)

// Certainty tells whether the pod will get exactly the decided resources.
type Certainty uint8

const (
	// VerdictOnly means that the kubelet admits the pod in every possible state of the node, but
	// that the pod's CPUs, memory nodes or devices may differ from the decision.
	VerdictOnly Certainty = iota
	// Exact means that the pod gets exactly the decided resources.
	Exact
)

var certaintyNames = [...]string{VerdictOnly: "verdict", Exact: "exact"}

// String returns the word that the annotation uses.
func (c Certainty) String() string { return nameOf(certaintyNames[:], int(c)) }

// Guarantee is the strength of the scheduler's promise, which depends on the node's report.
type Guarantee uint8

const (
	// GuaranteeNone means that nothing is known about the node's NUMA nodes.
	GuaranteeNone Guarantee = iota
	// GuaranteeAmounts means that the placement is best effort: the node reports only amounts per
	// NUMA node, or koordlet carries out the decision.
	GuaranteeAmounts
	// GuaranteeFull means that the node has a complete NodeTopology. The scheduler promises that
	// the node's kubelet will not refuse the pod.
	GuaranteeFull
)

var guaranteeNames = [...]string{GuaranteeNone: "none", GuaranteeAmounts: "amounts", GuaranteeFull: "full"}

// String returns the word that the annotation uses.
func (g Guarantee) String() string { return nameOf(guaranteeNames[:], int(g)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// Placement is the content of the placement annotation.
type Placement struct {
	// Sequence numbers the scheduler's Bindings to the node, starting at 1.
	Sequence uint64
	// Generation numbers the decisions for the pod, starting at 1. Each resize in place leads to a
	// new decision. 0 means the same as 1.
	Generation uint64
	// Report is the sequence number of the report on which the decision is based, or 0 if there was
	// no report.
	Report    int64
	Certainty Certainty
	Guarantee Guarantee
	// Authority is the authority that the node had when the pod was placed: the program that chose
	// CPUs, memory and devices there. Koordlet means that koordlet had to carry out the decision.
	// The node may have another authority or enforcer by now. The placement of a Reservation does
	// not set these fields.
	Authority placement.Authority
	Koordlet  bool
	Decision  placement.Decision
}

// The JSON of the annotation. If the meaning of a field changes, or a new field is required, the
// format needs a new version number. Readers refuse versions that they do not know.
type placementJSON struct {
	Version  int    `json:"v"`
	Sequence uint64 `json:"seq"`
	Report   int64  `json:"report,omitempty"`
	UID      string `json:"uid"`
	// The next two fields are omitted for generation 1. Asks has the requests of the app containers
	// and sidecars (asksOf). The admission policy placement-by-binding compares this text with the
	// pod's status. It is text because a policy cannot parse JSON.
	Generation uint64 `json:"gen,omitempty"`
	Asks       string `json:"asks,omitempty"`
	Certainty  string `json:"certainty"`
	Guarantee  string `json:"guarantee"`
	// The next two fields are omitted for authority kubelet, because the first release cannot read
	// them.
	Authority  string          `json:"authority,omitempty"` // "", "berth"
	Enforcer   string          `json:"enforcer,omitempty"`  // "", "koordlet"
	Whole      *wholeJSON      `json:"whole,omitempty"`
	Containers []containerJSON `json:"containers"`
}

// wholeJSON has the resources that the containers of a pod with spec.resources share.
type wholeJSON struct {
	CPUs   string      `json:"cpus,omitempty"`
	Memory []blockJSON `json:"memory,omitempty"`
}

type containerJSON struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind,omitempty"` // "", "Init", "Sidecar"
	Hint    hintJSON     `json:"hint"`
	CPUs    string       `json:"cpus,omitempty"` // in the kernel's list format; absent if the container uses the shared pool
	Memory  []blockJSON  `json:"memory,omitempty"`
	Devices []deviceJSON `json:"devices,omitempty"`
	// The following are written only for nodes with authority berth.
	Shares    []v1alpha1.CPUShare `json:"shares,omitempty"`
	Exclusive string              `json:"exclusive,omitempty"` // "", "core", "numa"
	Bounds    []string            `json:"bounds,omitempty"`    // "cpus", "memory"
	// Provided has the resources that providers in the scheduler have given to the container.
	Provided []providedJSON `json:"provided,omitempty"`
}

type providedJSON struct {
	Resource string `json:"resource"`
	Place    string `json:"place"`
	Amount   uint64 `json:"amount"`
}

// hintJSON is a TopologyHint. NUMA is nil if the hint's affinity is nil, which means any NUMA node.
type hintJSON struct {
	NUMA      *string `json:"numa,omitempty"`
	Preferred bool    `json:"preferred"`
}

type blockJSON struct {
	Resource string `json:"resource"`
	NUMA     string `json:"numa"`
	Bytes    uint64 `json:"bytes"`
}

type deviceJSON struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
}

// AmountsAlone returns the decision without ids of CPUs and devices, which are unknown if a node
// reports only amounts.
func AmountsAlone(d *placement.Decision) placement.Decision {
	out := placement.Decision{UID: d.UID, Containers: slices.Clone(d.Containers)}
	if d.Whole != nil {
		out.Whole = &placement.Whole{Memory: d.Whole.Memory}
	}
	for i := range out.Containers {
		out.Containers[i].CPUs, out.Containers[i].Devices = topology.CPUSet{}, nil
	}
	return out
}

// WritePlacement returns the annotation's value. Identical placements give identical text. It
// returns an error if readers would reject the text.
func WritePlacement(p *Placement) (string, error) {
	out := placementJSON{
		Version: placementVersion, Sequence: p.Sequence, Report: p.Report, UID: p.Decision.UID,
		Certainty: p.Certainty.String(), Guarantee: p.Guarantee.String(),
		Containers: make([]containerJSON, 0, len(p.Decision.Containers)),
	}
	if p.Generation > 1 {
		out.Generation, out.Asks = p.Generation, asksOf(&p.Decision)
	}
	if p.Authority == placement.AuthorityBerth {
		out.Authority = authorityBerth
	}
	if p.Koordlet {
		out.Enforcer = enforcerKoordlet
	}
	if w := p.Decision.Whole; w != nil {
		out.Whole = &wholeJSON{CPUs: w.CPUs.String(), Memory: writeBlocks(w.Memory)}
	}
	for i := range p.Decision.Containers {
		out.Containers = append(out.Containers, writeContainer(&p.Decision.Containers[i]))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&out); err != nil {
		return "", fmt.Errorf("placement of pod %s: %w", p.Decision.UID, err)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if _, err := parsePlacement("Pod "+p.Decision.UID, text); err != nil {
		return "", fmt.Errorf("refusing to write a placement that readers would reject: %w", err)
	}
	return text, nil
}

// CheckPlacement checks that WritePlacement can write the decision, and that the pod's other
// annotations leave enough bytes for the text. The error names the pod. The check is cheap unless
// the decision or the annotations are large.
func CheckPlacement(pod *corev1.Pod, d *placement.Decision) error { return checkBeside(pod, d, 0) }

// checkBeside implements CheckPlacement. The parameter more is the number of bytes of other
// annotations that the Binding adds.
func checkBeside(pod *corev1.Pod, d *placement.Decision, more int) error {
	if rough := roughBytes(d); len(d.Containers) <= placement.MaxContainers && rough <= MaxPlacementBytes && CheckAnnotations(pod, rough+more) == nil {
		return nil
	}
	text, err := WritePlacement(longestPlacement(d))
	if err != nil {
		return fmt.Errorf("%s: %w", podName(pod), err)
	}
	return CheckAnnotations(pod, len(text)+more)
}

// longestPlacement returns a placement with the longest value in every field except the decision.
func longestPlacement(d *placement.Decision) *Placement {
	return &Placement{Sequence: math.MaxUint64, Generation: math.MaxUint64, Report: math.MaxInt64, Certainty: VerdictOnly, Guarantee: GuaranteeAmounts,
		Authority: placement.AuthorityBerth, Koordlet: true, Decision: *d}
}

// CheckAnnotations checks that the pod's other annotations leave room for a placement of the given
// number of bytes. The API server limits the size of all annotations at every write except a
// Binding (BindingREST.setPodNodeAndMetadata). If a Binding exceeds the limit, the pod runs, but
// the kubelet can never write the pod's status. The error is a *FieldError.
func CheckAnnotations(pod *corev1.Pod, bytes int) error {
	total := len(PlacementAnnotation) + bytes
	for name, value := range pod.Annotations {
		if name != PlacementAnnotation {
			total += len(name) + len(value)
		}
	}
	if total <= validation.TotalAnnotationSizeLimitB {
		return nil
	}
	return fieldErrors(podName(pod)).at(field.NewPath("metadata", "annotations"), fmt.Sprint(total, " bytes with ", PlacementAnnotation),
		fmt.Sprint("at most ", validation.TotalAnnotationSizeLimitB, ", the limit of the API server for all annotations"))
}

// roughBytes returns an upper bound of the length of WritePlacement's text, without writing the
// text.
func roughBytes(d *placement.Decision) int {
	n := roughFrame + roughEscape*len(d.UID)
	if d.Whole != nil {
		n += roughContainerBytes(&placement.ContainerDecision{CPUs: d.Whole.CPUs, Memory: d.Whole.Memory})
	}
	for i := range d.Containers {
		n += roughContainerBytes(&d.Containers[i])
	}
	return n
}

const (
	roughFrame  = 256 // names, brackets and numbers of one object
	roughNumber = 5   // "1023,"
	roughEscape = 6   // `\u0000` for one byte
)

func roughContainerBytes(c *placement.ContainerDecision) int {
	n := 2*roughFrame + 2*roughEscape*len(c.Name) + roughNumber*(c.CPUs.Len()+c.Hint.NUMA.Len())
	for j := range c.Memory {
		n += roughFrame + roughEscape*len(c.Memory[j].Resource) + roughNumber*c.Memory[j].NUMA.Len()
	}
	n += roughFrame * len(c.Shares)
	for j := range c.Provided {
		n += roughFrame + roughEscape*(len(c.Provided[j].Resource)+len(c.Provided[j].Place))
	}
	for j := range c.Devices {
		n += roughFrame + roughEscape*len(c.Devices[j].Resource)
		for _, id := range c.Devices[j].IDs {
			n += roughEscape*len(id) + len(`"",`)
		}
	}
	return n
}

// The values of placementJSON.Authority and Enforcer, which are the same in a NodeTopology's spec.
const (
	authorityBerth   = string(v1alpha1.AuthorityBerth)
	enforcerKoordlet = string(v1alpha1.EnforcerKoordlet)
)

func writeBlocks(blocks []placement.MemoryBlock) (out []blockJSON) {
	for _, b := range blocks {
		out = append(out, blockJSON{b.Resource, b.NUMA.String(), b.Bytes})
	}
	return out
}

func writeContainer(c *placement.ContainerDecision) containerJSON {
	out := containerJSON{Name: c.Name, Hint: hintJSON{Preferred: c.Hint.Preferred}, CPUs: c.CPUs.String()}
	if int(c.Kind) < len(kindNames) {
		out.Kind = string(kindNames[c.Kind])
	}
	if !c.Hint.Any {
		list := c.Hint.NUMA.String()
		out.Hint.NUMA = &list
	}
	out.Memory = writeBlocks(c.Memory)
	for _, d := range c.Devices {
		out.Devices = append(out.Devices, deviceJSON{d.Resource, d.IDs})
	}
	for _, s := range c.Shares {
		out.Shares = append(out.Shares, v1alpha1.CPUShare{NUMA: v1alpha1.NUMAID(s.NUMA), MilliCPU: s.MilliCPU})
	}
	for _, p := range c.Provided {
		out.Provided = append(out.Provided, providedJSON(p))
	}
	if int(c.Exclusive) < len(exclusiveNames) {
		out.Exclusive = exclusiveNames[c.Exclusive]
	}
	for i, name := range boundNames {
		if c.Bounds>>i&1 == 1 {
			out.Bounds = append(out.Bounds, name)
		}
	}
	return out
}

// ReadPlacement reads the placement annotation of a pod; found is false if there is none. If the
// placement belongs to another pod or is invalid, ReadPlacement returns a *FieldError.
func ReadPlacement(pod *corev1.Pod) (p Placement, found bool, err error) {
	text, ok := pod.Annotations[PlacementAnnotation]
	if !ok {
		return Placement{}, false, nil
	}
	object := podName(pod)
	if p, err = parsePlacement(object, text); err != nil {
		return Placement{}, true, err
	}
	if p.Decision.UID != string(pod.UID) {
		return Placement{}, true, fieldErrors(object).at(annotation(PlacementAnnotation).Child("uid"), p.Decision.UID,
			"the pod's own UID "+string(pod.UID)+": a placement cannot be copied")
	}
	return p, true, nil
}

func podName(pod *corev1.Pod) string {
	switch {
	case OfReservation(pod):
		return "Reservation " + pod.Name
	case pod.Namespace == "":
		return "Pod " + pod.Name
	}
	return "Pod " + pod.Namespace + "/" + pod.Name
}

func annotation(name string) *field.Path { return field.NewPath("metadata", "annotations").Key(name) }

// parsePlacement reads the annotation's value in the format of WritePlacement. The error is a
// *FieldError with the given name of the object. parsePlacement refuses unknown and repeated
// fields.
func parsePlacement(object, text string) (Placement, error) {
	r := placementReader{fieldErrors(object), annotation(PlacementAnnotation)}
	if len(text) > MaxPlacementBytes {
		return Placement{}, r.at(r.root, text, fmt.Sprintf("at most %d bytes, not %d", MaxPlacementBytes, len(text)))
	}
	var in placementJSON
	strict, err := kjson.UnmarshalStrict([]byte(text), &in)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return Placement{}, r.at(r.root, text, "the JSON that the scheduler writes: "+err.Error())
	}
	return r.read(&in)
}

type placementReader struct {
	fieldErrors
	root *field.Path
}

func (r placementReader) read(in *placementJSON) (Placement, error) {
	p := Placement{Sequence: in.Sequence, Report: in.Report, Generation: in.Generation}
	certainty := slices.Index(certaintyNames[:], in.Certainty)
	guarantee := slices.Index(guaranteeNames[:], in.Guarantee)
	switch {
	case in.Version != placementVersion:
		return p, r.at(r.root.Child("v"), in.Version, fmt.Sprint(placementVersion, ", the version that this release knows"))
	case in.Sequence == 0:
		return p, r.at(r.root.Child("seq"), in.Sequence, "a number of at least 1")
	case in.Report < 0:
		return p, r.at(r.root.Child("report"), in.Report, "a number that is not negative")
	case in.UID == "" || len(in.UID) > 128:
		return p, r.at(r.root.Child("uid"), in.UID, "the UID of a pod")
	case certainty < 0:
		return p, r.at(r.root.Child("certainty"), in.Certainty, "exact or verdict")
	case guarantee < 0:
		return p, r.at(r.root.Child("guarantee"), in.Guarantee, "full, amounts or none")
	case in.Authority != "" && in.Authority != authorityBerth:
		return p, r.at(r.root.Child("authority"), in.Authority, "berth, or no value if the kubelet decides")
	case in.Enforcer != "" && (in.Enforcer != enforcerKoordlet || in.Authority == ""):
		return p, r.at(r.root.Child("enforcer"), in.Enforcer, "no value, or koordlet with authority berth")
	case len(in.Containers) > placement.MaxContainers:
		return p, r.at(r.root.Child("containers"), len(in.Containers), fmt.Sprint("at most ", placement.MaxContainers))
	}
	p.Certainty, p.Guarantee = Certainty(certainty), Guarantee(guarantee)
	p.Koordlet = in.Enforcer != ""
	if in.Authority != "" {
		p.Authority = placement.AuthorityBerth
	}
	p.Decision.UID = in.UID
	if in.Whole != nil {
		var err error
		if p.Decision.Whole, err = r.whole(r.root.Child("whole"), in.Whole); err != nil {
			return Placement{}, err
		}
	}
	names := make(map[string]bool, len(in.Containers))
	for i := range in.Containers {
		at := r.root.Child("containers").Index(i)
		c, err := r.container(at, &in.Containers[i])
		if err != nil {
			return Placement{}, err
		}
		if names[c.Name] {
			return Placement{}, r.at(at.Child("name"), c.Name, "each container once")
		}
		names[c.Name] = true
		p.Decision.Containers = append(p.Decision.Containers, c)
	}
	return p, r.generation(in, &p)
}

// generation checks the fields that only a decision after a resize has.
func (r placementReader) generation(in *placementJSON, p *Placement) error {
	switch {
	case in.Generation == 1 || in.Generation > 0 && p.Authority != placement.AuthorityBerth:
		return r.at(r.root.Child("gen"), in.Generation, "no value, or a number of at least 2 with authority berth")
	case in.Generation == 0 && in.Asks != "" || in.Generation > 1 && in.Asks != asksOf(&p.Decision) && in.Asks != appAsks(&p.Decision):
		return r.at(r.root.Child("asks"), in.Asks, "the requests of the containers of a resized pod")
	}
	return nil
}

func (r placementReader) whole(at *field.Path, in *wholeJSON) (*placement.Whole, error) {
	var out placement.Whole
	var err error
	if out.CPUs, err = topology.ParseCPUList(in.CPUs); err != nil {
		return nil, r.at(at.Child("cpus"), in.CPUs, "a CPU list: "+err.Error())
	}
	if out.Memory, err = r.memory(at.Child("memory"), in.Memory); err != nil {
		return nil, err
	}
	return &out, nil
}

func (r placementReader) container(at *field.Path, in *containerJSON) (placement.ContainerDecision, error) {
	out := placement.ContainerDecision{Name: in.Name, Hint: placement.Hint{Any: in.Hint.NUMA == nil, Preferred: in.Hint.Preferred}}
	if in.Name == "" || len(in.Name) > 63 {
		return out, r.at(at.Child("name"), in.Name, "the name of a container")
	}
	kind := slices.Index(kindNames[:], v1alpha1.ContainerKind(in.Kind))
	if kind < 0 {
		return out, r.at(at.Child("kind"), in.Kind, "Init, Sidecar or no value")
	}
	out.Kind = placement.ContainerKind(kind)
	var err error
	if in.Hint.NUMA != nil {
		if out.Hint.NUMA, err = r.numa(at.Child("hint", "numa"), *in.Hint.NUMA); err != nil {
			return out, err
		}
	}
	if out.CPUs, err = topology.ParseCPUList(in.CPUs); err != nil {
		return out, r.at(at.Child("cpus"), in.CPUs, "a CPU list: "+err.Error())
	}
	if out.Memory, err = r.memory(at.Child("memory"), in.Memory); err != nil {
		return out, err
	}
	if out.Devices, err = r.devices(at.Child("devices"), in.Devices); err != nil {
		return out, err
	}
	return out, r.ownDecision(at, in, &out)
}

var (
	exclusiveNames = [...]string{joint.Shareable: "", joint.ExclusiveCore: "core", joint.ExclusiveNUMA: "numa"}
	boundNames     = [...]string{"cpus", "memory"} // by bit of placement.ContainerDecision.Bounds
)

// ownDecision reads the fields that only Berth's own decisions have.
func (r placementReader) ownDecision(at *field.Path, in *containerJSON, out *placement.ContainerDecision) error {
	var err error
	if out.Shares, err = r.shares(at.Child("shares"), in.Shares); err != nil {
		return err
	}
	if out.Provided, err = r.provided(at.Child("provided"), in.Provided); err != nil {
		return err
	}
	level := slices.Index(exclusiveNames[:], in.Exclusive)
	if level < 0 {
		return r.at(at.Child("exclusive"), in.Exclusive, "core, numa or no value")
	}
	out.Exclusive = joint.Exclusive(level)
	for i, name := range in.Bounds {
		bit := slices.Index(boundNames[:], name)
		if bit < 0 || out.Bounds>>bit != 0 {
			return r.at(at.Child("bounds").Index(i), name, "cpus, then memory, each once")
		}
		out.Bounds |= 1 << bit
	}
	return nil
}

func (o fieldErrors) shares(at *field.Path, in []v1alpha1.CPUShare) ([]placement.CPUShare, error) {
	if len(in) > topology.MaxNUMANodes {
		return nil, o.at(at, len(in), fmt.Sprint("at most ", topology.MaxNUMANodes))
	}
	var out []placement.CPUShare
	for i, s := range in {
		if s.NUMA < 0 || s.NUMA >= topology.MaxNUMANodes || i > 0 && in[i-1].NUMA >= s.NUMA {
			return nil, o.at(at.Index(i).Child("numa"), s.NUMA, "NUMA nodes below 64 in ascending order, each once")
		}
		if s.MilliCPU <= 0 || s.MilliCPU > 1000*topology.MaxCPUs {
			return nil, o.at(at.Index(i).Child("milliCPU"), s.MilliCPU, fmt.Sprint("1 to ", 1000*topology.MaxCPUs))
		}
		out = append(out, placement.CPUShare{NUMA: topology.NUMAID(s.NUMA), MilliCPU: s.MilliCPU})
	}
	return out, nil
}

// maxProvided is the maximum number of entries for a container's provided resources. Each entry is
// a placement.Provided.
const maxProvided = 256

func (r placementReader) provided(at *field.Path, in []providedJSON) ([]placement.Provided, error) {
	if len(in) > maxProvided {
		return nil, r.at(at, len(in), fmt.Sprint("at most ", maxProvided, " amounts"))
	}
	var out []placement.Provided
	for i, p := range in {
		switch again := slices.ContainsFunc(in[:i], func(o providedJSON) bool { return o.Resource == p.Resource && o.Place == p.Place }); {
		case p.Resource == "" || len(p.Resource) > 253:
			return nil, r.at(at.Index(i).Child("resource"), p.Resource, "the name of a resource")
		case p.Place == "" || len(p.Place) > placement.MaxPlaceName || again:
			return nil, r.at(at.Index(i).Child("place"), p.Place, fmt.Sprint("names of 1 to ", placement.MaxPlaceName, " bytes, each once for a resource"))
		case p.Amount == 0 || p.Amount > 1<<30:
			return nil, r.at(at.Index(i).Child("amount"), p.Amount, "1 to 2^30")
		}
		out = append(out, placement.Provided(p))
	}
	return out, nil
}

func (r placementReader) numa(at *field.Path, list string) (topology.NUMASet, error) {
	set, err := topology.ParseNUMAList(list)
	if err != nil {
		return 0, r.at(at, list, "a list of NUMA nodes: "+err.Error())
	}
	if set == 0 {
		return 0, r.at(at, list, "at least one NUMA node")
	}
	return set, nil
}

func (r placementReader) memory(at *field.Path, blocks []blockJSON) ([]placement.MemoryBlock, error) {
	if len(blocks) > maxBlocks {
		return nil, r.at(at, len(blocks), fmt.Sprint("at most ", maxBlocks, " blocks"))
	}
	var out []placement.MemoryBlock
	for i, b := range blocks {
		numa, err := r.numa(at.Index(i).Child("numa"), b.NUMA)
		if err != nil {
			return nil, err
		}
		if b.Resource == "" || len(b.Resource) > 253 {
			return nil, r.at(at.Index(i).Child("resource"), b.Resource, "the name of a resource")
		}
		out = append(out, placement.MemoryBlock{Resource: b.Resource, NUMA: numa, Bytes: b.Bytes})
	}
	return out, nil
}

func (r placementReader) devices(at *field.Path, devices []deviceJSON) ([]placement.DeviceAllocation, error) {
	var out []placement.DeviceAllocation
	total := 0
	for i, d := range devices {
		if d.Resource == "" || len(d.Resource) > 253 || i > 0 && devices[i-1].Resource >= d.Resource {
			return nil, r.at(at.Index(i).Child("resource"), d.Resource, "the names of resources in ascending order, each once")
		}
		if total += len(d.IDs); total > maxDevicesPerAnswer {
			return nil, r.at(at, total, fmt.Sprint("at most ", maxDevicesPerAnswer, " devices"))
		}
		for j, id := range d.IDs {
			if id == "" || len(id) > 253 || j > 0 && d.IDs[j-1] >= id {
				return nil, r.at(at.Index(i).Child("ids").Index(j), id, "ids in ascending order, each once")
			}
		}
		out = append(out, placement.DeviceAllocation{Resource: d.Resource, IDs: d.IDs})
	}
	return out, nil
}

var kindNames = [...]v1alpha1.ContainerKind{placement.App: "", placement.Init: v1alpha1.KindInit, placement.Sidecar: v1alpha1.KindSidecar}
