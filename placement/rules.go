package placement

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Policy is a policy of the Topology Manager. Each policy gives the guarantees of all policies
// before it.
type Policy uint8

// The policies. The zero value, NodePolicy, leaves the choice to the node.
const (
	NodePolicy Policy = iota
	PolicyNone
	PolicyBestEffort
	PolicyRestricted
	PolicySingleNUMANode

	policies // the number of values
)

var policyNames = [policies]string{
	NodePolicy: "", PolicyNone: "none", PolicyBestEffort: "best-effort", PolicyRestricted: "restricted", PolicySingleNUMANode: "single-numa-node",
}

// String returns the policy as KubeletConfiguration spells it. For NodePolicy it returns "".
func (p Policy) String() string { return spell(p, policyNames[:]) }

// ParsePolicy parses a policy as KubeletConfiguration spells it. It returns false for other words
// and for "".
func ParsePolicy(text string) (Policy, bool) { return parse[Policy](text, policyNames[:]) }

// Scope is a scope of the Topology Manager: container or pod.
type Scope uint8

// The scopes. The zero value, NodeScope, leaves the choice to the node.
const (
	NodeScope Scope = iota
	ContainerScope
	PodScope

	scopes // the number of values
)

var scopeNames = [scopes]string{NodeScope: "", ContainerScope: "container", PodScope: "pod"}

// String returns the scope as KubeletConfiguration spells it. For NodeScope it returns "".
func (s Scope) String() string { return spell(s, scopeNames[:]) }

// ParseScope parses a scope as KubeletConfiguration spells it. It returns false for other words and
// for "".
func ParseScope(text string) (Scope, bool) { return parse[Scope](text, scopeNames[:]) }

// spell returns the name of a value, or "?" if the value does not exist.
func spell[T ~uint8](v T, names []string) string {
	if int(v) >= len(names) {
		return "?"
	}
	return names[v]
}

// parse returns the value of a name. The zero value has no name.
func parse[T ~uint8](name string, names []string) (T, bool) {
	i := slices.Index(names[1:], name)
	return T(i + 1), i >= 0
}

// Match is the required relation between a node's policy and the requested policy, on nodes where
// the kubelet decides.
type Match uint8

const (
	// AtLeast, the zero value: the node's policy is the requested one or a stricter one.
	AtLeast Match = iota
	// Exactly: the node's policy is the requested one.
	Exactly
	// Whatever: the node may have any policy.
	Whatever

	matches // the number of values
)

// Rules are a pod's requirements for its placement. The zero value leaves everything to the node.
//
// The effect of Rules depends on the node's Authority. A kubelet uses its own configuration, so
// Rules restrict only the choice of nodes (Model.Keeps). They change no verdict, except that Berth
// refuses pods because of Keep (KeptForDevices) and Devices.PerNode (DevicesNowhere, DevicesOpen).
// If Berth decides, Rules replace the node's rules.
type Rules struct {
	Policy Policy
	Scope  Scope
	Match  Match
	// OwnCPUs requires a node on which containers can have exclusive whole CPUs: a kubelet's CPU
	// manager must be static.
	OwnCPUs bool
	// CPUs are requirements for the cores and caches of pinned CPUs, and for exclusiveness. Any
	// such requirement also asks for pinned CPUs, whatever the pod's QoS class.
	CPUs joint.Rules
	// MayWithhold allows a pod with CPUs.Exclusive to keep CPUs idle that it does not request.
	// Without MayWithhold, a pod that wants a core or a NUMA node exclusively must request all CPUs
	// of that core or NUMA node.
	MayWithhold bool
	// Shares asks for CPU time instead of exclusive CPUs, even for a Guaranteed pod with whole
	// CPUs. If Shares is only Preferred, nodes whose kubelet assigns exclusive CPUs are accepted.
	Shares joint.Strength
	// PinMemory requires that the node binds memory to the pod's NUMA nodes. Without PinMemory,
	// Berth only counts the pod's memory on these NUMA nodes.
	PinMemory bool
	// NUMANodes asks for exactly this number of NUMA nodes, as near to each other as possible. It
	// applies to the pod as a whole, or to each container if Scope is the container scope. 0 leaves
	// the number to the policy.
	NUMANodes uint8
	// Devices are requirements for the places of devices.
	Devices DeviceRules
	// Claimed are devices near which the pod must be if Berth decides, or nil. The scheduler sets
	// Claimed.
	Claimed *Claimed
	// Keep reserves CPUs for pods with devices, or is nil. The scheduler sets Keep.
	Keep *Keep
}

// DeviceRules are the requirements for the devices of a container, or of a pod if its scope is pod.
// The zero value leaves everything to the node.
type DeviceRules struct {
	// Same tells at which PCI places the devices must be together, and SameHow if this is a
	// requirement or a preference.
	Same    joint.Same
	SameHow joint.Strength
	// Joint, if it is not empty, lists the only device types that the pod may request together with
	// Same. A pod with devices of another type is refused (DevicesApart). Empty means all types.
	Joint DeviceTypes
	// OnePerFunction are the types of which the pod gets at most one virtual function of each
	// physical function.
	OnePerFunction DeviceTypes
	// All are the types of which the pod gets one device of each physical function of the machine.
	// The pod must request exactly that number.
	All DeviceTypes
	// PerNode asks for exactly this number of devices of each resource on each NUMA node of the
	// pod, or of a container if Scope is the container scope. 0 requests no number. PerNode cannot
	// be combined with Same.
	PerNode uint8
}

// insist reports whether the rules have requirements for where the devices are: their NUMA nodes,
// PCI places or functions.
func (r *DeviceRules) insist() bool { return r.insistOnCards() || r.PerNode != 0 }

// insistOnCards reports whether the rules have requirements for the PCI places or functions of the
// devices.
func (r *DeviceRules) insistOnCards() bool {
	return r.SameHow == joint.Required || r.OnePerFunction != 0 || r.All != 0
}

func (r *DeviceRules) sane() bool {
	return r.Same.Sane() && (r.Same == joint.Anywhere) == (r.SameHow == joint.Unset) && r.SameHow <= joint.Required &&
		(r.PerNode == 0 || r.Same == joint.Anywhere)
}

// DeviceTypes is a set of types of devices.
type DeviceTypes uint8

// The types, and the set of all types. OtherType is for devices of all other types.
const (
	GPUType DeviceTypes = 1 << iota
	RDMAType
	AcceleratorType
	OtherType

	EveryType DeviceTypes = 1<<iota - 1
)

func setOf(k topology.DeviceKind) DeviceTypes {
	switch k {
	case topology.GPU:
		return GPUType
	case topology.RDMANIC:
		return RDMAType
	case topology.Accelerator:
		return AcceleratorType
	}
	return OtherType
}

// Own returns the pod's own requirements, without the scheduler's rules.
func (r Rules) Own() Rules {
	r.MayWithhold, r.Keep, r.Claimed = false, nil, nil
	return r
}

// CountsNUMANodes reports whether the rules require a number of NUMA nodes, or exclusive NUMA
// nodes. If a kubelet pins nothing for the pod, these are the only rules for CPUs that it violates.
func (r Rules) CountsNUMANodes() bool {
	return r.NUMANodes > 0 || r.CPUs.ExclusiveHow == joint.Required && r.CPUs.Exclusive == joint.ExclusiveNUMA
}

// sane reports whether all values of the rules exist and can be combined.
func (r Rules) sane() bool {
	return r.Policy < policies && r.Scope < scopes && r.Match < matches && r.CPUs.Sane() && r.Shares <= joint.Required && r.Devices.sane() &&
		(r.NUMANodes <= 1 || r.Policy != PolicySingleNUMANode)
}

// keptBy reports whether a node with the rules own fulfils Policy, Scope, Match and OwnCPUs of r.
// own.Policy and own.Scope must be set.
func (r Rules) keptBy(own Rules) bool {
	if r.Scope != NodeScope && r.Scope != own.Scope || r.OwnCPUs && !own.OwnCPUs {
		return false
	}
	switch r.Match {
	case Whatever:
		return true
	case Exactly:
		return r.Policy == NodePolicy || r.Policy == own.Policy
	default:
		return own.Policy >= r.Policy
	}
}

// Authority is the program that chooses CPUs, memory and devices on a node.
type Authority uint8

const (
	// AuthorityKubelet, the zero value: the kubelet's managers choose, by their own configuration.
	AuthorityKubelet Authority = iota
	// AuthorityBerth: the node carries out the scheduler's decisions, so a pod's Rules override the
	// node's.
	AuthorityBerth
)

// Rules returns the rules of the node's configuration. Policy and Scope are always set. OwnCPUs is
// set if the CPU manager is static.
func (m *Model) Rules() Rules { return m.own }

// Decides reports whether Berth decides on the node. If Decides is true, the node carries out
// Berth's decisions, and the engine predicts no kubelet.
func (m *Model) Decides() bool { return m.authority == AuthorityBerth }

// Keeps reports whether the node fulfils the rules. If the kubelet decides, its policy must fulfil
// Rules.Match, its scope must be the requested one, and its configuration must imply all wishes. If
// Berth decides, the node must be able to apply the pod's rules.
func (m *Model) Keeps(r Rules) bool {
	switch {
	case !r.sane():
		return false
	case m.authority == AuthorityKubelet:
		return r.keptBy(m.own) && m.Misses(r) == NoWish
	}
	return m.Misses(r) == NoWish
}

// Wish is a requirement of a pod for its node. A kubelet's configuration implies a wish if the
// kubelet then fulfils it for every pod. Some wishes are implied by no configuration.
type Wish uint8

// The wishes.
const (
	NoWish Wish = iota
	// WishFullCores is implied by full-pcpus-only.
	WishFullCores
	// WishSpread is implied by distribute-cpus-across-cores.
	WishSpread
	// WishExclusiveCore is implied by full-pcpus-only, with which pods never share a core.
	WishExclusiveCore
	// WishExclusiveNUMA and WishL3 are implied by no configuration.
	WishExclusiveNUMA
	WishL3
	// WishPinnedMemory is implied by the memory manager's policy Static. If Berth decides, a node
	// does not fulfil it if the program that carries out the decisions does not write cpuset.mems
	// (Config.MemoryStays).
	WishPinnedMemory
	// WishShares is implied by the CPU manager policy none.
	WishShares
	// WishDevices is implied by no configuration: a kubelet knows only the NUMA node of a device.
	WishDevices
)

// Misses returns the first wish that the rules require and the kubelet's configuration does not
// imply, or NoWish. Preferences are ignored. If Berth decides, Misses returns only wishes that the
// node's own configuration makes impossible.
func (m *Model) Misses(r Rules) Wish {
	if m.memoryStays && r.PinMemory {
		return WishPinnedMemory
	}
	c, o := r.CPUs, m.set.cpu
	whole := m.set.static && o.FullPhysicalCPUsOnly
	switch own := m.own.CPUs.Bind; {
	case m.authority != AuthorityKubelet && (own == joint.BindAny || c.BindHow != joint.Required || c.Bind == own):
	case m.authority != AuthorityKubelet && c.Bind == joint.FullCores:
		return WishFullCores
	case m.authority != AuthorityKubelet:
		return WishSpread
	case c.BindHow == joint.Required && c.Bind == joint.FullCores && !whole:
		return WishFullCores
	case c.BindHow == joint.Required && c.Bind == joint.Spread && !(m.set.static && o.DistributeAcrossCores):
		return WishSpread
	case c.ExclusiveHow == joint.Required && c.Exclusive == joint.ExclusiveCore && !whole:
		return WishExclusiveCore
	case c.ExclusiveHow == joint.Required && c.Exclusive == joint.ExclusiveNUMA:
		return WishExclusiveNUMA
	case c.L3 == joint.Required:
		return WishL3
	case r.Shares == joint.Required && m.set.static:
		return WishShares
	case r.PinMemory && !m.set.memory:
		return WishPinnedMemory
	case r.Devices.insistOnCards():
		return WishDevices
	}
	return NoWish
}

// rulesFor returns the rules that the node applies to a pod that asks for r.
func (m *Model) rulesFor(r Rules) Rules {
	if m.authority != AuthorityKubelet {
		return r.over(m.own)
	}
	return m.own
}

// over returns the pod's rules r, and takes the rules that r lacks from the node's rules (own). If
// the node has a rule for whole cores (CPUs.Bind), it overrides the pod's. A pod with NUMANodes or
// Devices.PerNode has at least the policy restricted, and the pod scope unless r has another scope.
func (r Rules) over(own Rules) Rules {
	if own.CPUs.Bind != joint.BindAny {
		r.CPUs.Bind, r.CPUs.BindHow = own.CPUs.Bind, own.CPUs.BindHow
	}
	out := Rules{Policy: cmp.Or(r.Policy, own.Policy), Scope: cmp.Or(r.Scope, own.Scope), CPUs: r.CPUs, MayWithhold: r.MayWithhold,
		Shares: r.Shares, PinMemory: r.PinMemory, NUMANodes: r.NUMANodes, Devices: r.Devices}
	if r.NUMANodes > 0 || r.Devices.PerNode > 0 {
		out.Policy, out.Scope = max(r.Policy, PolicyRestricted), cmp.Or(r.Scope, PodScope)
	}
	return out
}
