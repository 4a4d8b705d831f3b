package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement/cpu"
)

// settings is a parsed Config.
type settings struct {
	version Version
	// own is the node's policy and scope.
	own Rules
	// cannot has, for each policy that the node cannot apply, the reason.
	cannot   [policies]error
	closest  bool // prefer-closest-numa-nodes
	maxNodes int  // max-allowable-numa-nodes
	cpu      cpu.Options
	static   bool // CPU manager is static
	memory   bool // memory manager is Static
	podLevel podLevel
	// claims means that the device manager does not allocate devices that Dynamic Resource
	// Allocation provides.
	claims  bool
	resizes resizing
}

// resizing describes which resources of a running pod the kubelet can change.
type resizing struct {
	// on means that pods can be resized. Since 1.35 this cannot be switched off.
	on bool
	// cpus and memory mean that pinned resources may change (alpha gates). The engine cannot
	// predict the kubelet's answer to such a change.
	cpus, memory bool
	// init means that init containers can be resized too. Since 1.37 this cannot be switched off.
	init bool
}

// podLevel describes how the kubelet handles spec.resources.
type podLevel struct {
	// unmanaged means that the CPU and memory managers ignore pods with spec.resources.
	unmanaged bool
	// managed means that the managers allocate resources to pods with spec.resources, and to each
	// of their containers that is Guaranteed on its own (gate PodLevelResourceManagers).
	managed bool
	// refused means that the kubelet refuses pods with spec.resources after all managers have
	// accepted them (lifecycle.isPodLevelResourcesSupported).
	refused bool
	// decidesEmpty means that spec.resources determines the QoS class even if it names no relevant
	// resource (pkg/apis/core/v1/helper/qos.ComputePodQOS).
	decidesEmpty bool
}

// featureGate is a gate of the kubelet, with the releases that added it, made it beta, and enabled
// it by default.
type featureGate struct {
	name            string
	since, beta, on Version
}

const never Version = 255

var (
	alphaCPUOptions     = featureGate{"CPUManagerPolicyAlphaOptions", 0, never, never}
	betaCPUOptions      = featureGate{"CPUManagerPolicyBetaOptions", 0, 0, 0}
	betaTopologyOptions = featureGate{"TopologyManagerPolicyBetaOptions", 0, 0, 0}
	podLevelResources   = featureGate{"PodLevelResources", 0, V134, V134}
	containersDecideQOS = featureGate{"PodLevelResourcesFixKubeletQOSClass", V137, V137, V137}
	podLevelManagers    = featureGate{"PodLevelResourceManagers", V136, V137, never}
	extendedClaims      = featureGate{"DRAExtendedResource", V134, V136, V136}
	resizes             = featureGate{"InPlacePodVerticalScaling", V133, V133, V133}
	resizesCPUs         = featureGate{"InPlacePodVerticalScalingExclusiveCPUs", V133, never, never}
	resizesMemory       = featureGate{"InPlacePodVerticalScalingExclusiveMemory", V134, never, never}
	resizesInit         = featureGate{"InPlacePodVerticalScalingInitContainers", V136, V136, V136}
)

// gate reports whether a feature gate is on. It uses the gate's own setting, otherwise AllAlpha or
// AllBeta, otherwise the default (setUnsetAlphaGates and setUnsetBetaGates of
// k8s.io/component-base/featuregate).
func (s *settings) gate(c *Config, g featureGate) bool {
	if on, set := c.FeatureGates[g.name]; set {
		return on
	}
	all := "AllAlpha"
	if s.version >= g.beta {
		all = "AllBeta"
	}
	if on, set := c.FeatureGates[all]; set && s.version >= g.since {
		return on
	}
	return s.version >= g.on
}

// KubeletMaxNodes is the default and the minimum of max-allowable-numa-nodes
// (topologymanager.defaultMaxAllowableNUMANodes).
const KubeletMaxNodes = 8

func bad(field, value, want string) error {
	return &ConfigError{Field: field, Value: value, Want: want}
}

func unsupported(field, value, want string) error {
	return &ConfigError{Field: field, Value: value, Want: want, Unsupported: true}
}

func readConfig(c *Config) (s settings, err error) {
	if s.version = c.Version; s.version == 0 {
		s.version = V136
	}
	if !s.version.Known() {
		return s, unsupported("version", "1."+strconv.Itoa(int(s.version)), "1.33 to 1.37")
	}
	if err := s.readPodLevel(c); err != nil {
		return s, err
	}
	s.claims = s.version >= V136 && s.gate(c, extendedClaims)
	s.resizes = resizing{
		on: s.version >= V135 || s.gate(c, resizes), cpus: s.gate(c, resizesCPUs), init: s.version >= V137 || s.version >= V136 && s.gate(c, resizesInit),
		memory: s.version >= V134 && s.gate(c, resizesMemory) || s.version < V134 && s.gate(c, resizesCPUs),
	}
	for _, read := range [...]func(*Config) error{s.readTopologyManager, s.readTopologyOptions, s.readManagers, s.readCPUOptions} {
		if err := read(c); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *settings) readPodLevel(c *Config) error {
	s.podLevel.managed = s.gate(c, podLevelManagers)
	switch field := "featureGates[" + podLevelManagers.name + "]"; {
	case s.podLevel.managed && s.version < podLevelManagers.since:
		return bad(field, "true", "a kubelet of at least 1.36, which knows the gate")
	case s.podLevel.managed && !s.gate(c, podLevelResources):
		return bad(field, "true", "the feature gate PodLevelResources to be on too")
	}
	// Since 1.36 the managers ignore pods with spec.resources even if the gate PodLevelResources is
	// off. The kubelet then refuses such pods after all managers have accepted them.
	s.podLevel.unmanaged = !s.podLevel.managed && (s.version >= V136 || s.version >= V134 && s.gate(c, podLevelResources))
	s.podLevel.refused = s.version >= V134 && !s.gate(c, podLevelResources)
	s.podLevel.decidesEmpty = s.gate(c, podLevelResources) && !s.gate(c, containersDecideQOS)
	return nil
}

// refuse records err as the reason why the node cannot apply some policies. If the node's own
// policy is one of them, the kubelet does not start, and refuse returns err.
func (s *settings) refuse(err error, of ...Policy) error {
	for _, p := range of {
		s.cannot[p] = cmp.Or(s.cannot[p], err)
	}
	if slices.Contains(of, s.own.Policy) {
		return err
	}
	return nil
}

// hinted are the policies with which the kubelet asks for hints.
var hinted = []Policy{PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode}

func (s *settings) readTopologyManager(c *Config) error {
	var ok bool
	if s.own.Policy, ok = ParsePolicy(cmp.Or(c.TopologyManagerPolicy, "none")); !ok {
		return bad("topologyManagerPolicy", c.TopologyManagerPolicy, "none, best-effort, restricted or single-numa-node")
	}
	if s.own.Scope, ok = ParseScope(cmp.Or(c.TopologyManagerScope, "container")); !ok {
		s.own.Scope = ContainerScope
		return s.refuse(bad("topologyManagerScope", c.TopologyManagerScope, "container or pod"), hinted...)
	}
	return nil
}

// readTopologyOptions reproduces topologymanager.NewPolicyOptions. With the policy none the kubelet
// ignores the options.
func (s *settings) readTopologyOptions(c *Config) error {
	s.maxNodes = KubeletMaxNodes
	if err := s.readEachTopologyOption(c); err != nil {
		return s.refuse(err, hinted...)
	}
	return nil
}

// readEachTopologyOption reads the options in the order of their names, up to the first wrong one.
func (s *settings) readEachTopologyOption(c *Config) (err error) {
	for _, name := range sortedKeys(c.TopologyManagerPolicyOptions) {
		value := c.TopologyManagerPolicyOptions[name]
		field := "topologyManagerPolicyOptions[" + name + "]"
		switch name {
		case "prefer-closest-numa-nodes":
			if s.closest, err = strconv.ParseBool(value); err != nil {
				return bad(field, value, "true or false")
			}
		case "max-allowable-numa-nodes":
			if s.version < V135 && !s.gate(c, betaTopologyOptions) {
				return bad(field, value, "the feature gate TopologyManagerPolicyBetaOptions to be on")
			}
			if s.maxNodes, err = strconv.Atoi(value); err != nil || s.maxNodes < KubeletMaxNodes {
				return bad(field, value, "a number of at least 8")
			}
		default:
			return bad(field, value, "a known option: prefer-closest-numa-nodes or max-allowable-numa-nodes")
		}
	}
	return nil
}

func (s *settings) readManagers(c *Config) error {
	if !isCPUList(c.ReservedSystemCPUs) {
		return bad("reservedSystemCPUs", c.ReservedSystemCPUs, `a list of CPUs and ranges like "0-3,8"`)
	}
	switch c.CPUManagerPolicy {
	case "", "none":
		if len(c.CPUManagerPolicyOptions) > 0 {
			name := sortedKeys(c.CPUManagerPolicyOptions)[0]
			return bad("cpuManagerPolicyOptions["+name+"]", c.CPUManagerPolicyOptions[name], "no options with cpuManagerPolicy none")
		}
	case "static":
		s.static = true
	default:
		return bad("cpuManagerPolicy", c.CPUManagerPolicy, "none or static")
	}
	switch c.MemoryManagerPolicy {
	case "", "None":
	case "Static":
		s.memory = true
	default:
		return bad("memoryManagerPolicy", c.MemoryManagerPolicy, "None or Static")
	}
	return nil
}

// isCPUList reports whether the kubelet can parse the text of reservedSystemCPUs
// (k8s.io/utils/cpuset.Parse). The kubelet parses it even if the CPU manager's policy is none.
// Unlike the kernel, the kubelet refuses strides and blanks.
func isCPUList(text string) bool {
	if text == "" {
		return true
	}
	for item := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(item, "-")
		low, err := strconv.ParseUint(from, 10, 31)
		if err != nil {
			return false
		}
		if high, err := strconv.ParseUint(to, 10, 31); ranged && (err != nil || high < low) {
			return false
		}
	}
	return true
}

// cpuOption is an option of the CPU manager's static policy, with the releases in which it became
// beta and GA. Before beta it needs the gate CPUManagerPolicyAlphaOptions, and before GA the gate
// CPUManagerPolicyBetaOptions.
type cpuOption struct {
	name     string
	beta, ga Version
	set      func(*cpu.Options, bool)
}

var cpuOptions = [...]cpuOption{
	{"align-by-socket", never, never, func(o *cpu.Options, on bool) { o.AlignBySocket = on }},
	{"distribute-cpus-across-cores", never, never, func(o *cpu.Options, on bool) { o.DistributeAcrossCores = on }},
	{"distribute-cpus-across-numa", V133, never, func(o *cpu.Options, on bool) { o.DistributeAcrossNUMA = on }},
	{"full-pcpus-only", 0, V133, func(o *cpu.Options, on bool) { o.FullPhysicalCPUsOnly = on }},
	{"prefer-align-cpus-by-uncorecache", V134, V136, func(o *cpu.Options, on bool) { o.PreferAlignByUncore = on }},
	{"strict-cpu-reservation", V133, V135, func(o *cpu.Options, on bool) { o.StrictReservation = on }},
}

func knownCPUOptions() string {
	names := make([]string, len(cpuOptions))
	for i := range cpuOptions {
		names[i] = cpuOptions[i].name
	}
	return strings.Join(names, ", ")
}

// readCPUOptions reproduces cpumanager.NewStaticPolicyOptions.
func (s *settings) readCPUOptions(c *Config) error {
	s.cpu.Version = s.version
	if !s.static {
		return nil
	}
	for _, name := range sortedKeys(c.CPUManagerPolicyOptions) {
		if err := s.readCPUOption(c, name, c.CPUManagerPolicyOptions[name]); err != nil {
			return err
		}
	}
	return s.checkCPUOptions()
}

func (s *settings) readCPUOption(c *Config, name, value string) error {
	field := "cpuManagerPolicyOptions[" + name + "]"
	i := slices.IndexFunc(cpuOptions[:], func(o cpuOption) bool { return o.name == name })
	if i < 0 {
		return bad(field, value, "a known option: "+knownCPUOptions())
	}
	o := &cpuOptions[i]
	if s.version < o.beta && !s.gate(c, alphaCPUOptions) {
		return bad(field, value, "the feature gate CPUManagerPolicyAlphaOptions to be on")
	}
	if s.version >= o.beta && s.version < o.ga && !s.gate(c, betaCPUOptions) {
		return bad(field, value, "the feature gate CPUManagerPolicyBetaOptions to be on")
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return bad(field, value, "true or false")
	}
	o.set(&s.cpu, on)
	return nil
}

func (s *settings) checkCPUOptions() error {
	o := &s.cpu
	const cores = "cpuManagerPolicyOptions[distribute-cpus-across-cores]"
	switch {
	case o.DistributeAcrossCores && o.FullPhysicalCPUsOnly:
		return bad(cores, "true", "false, because full-pcpus-only is true")
	case o.DistributeAcrossCores && o.DistributeAcrossNUMA:
		return bad(cores, "true", "false, because distribute-cpus-across-numa is true")
	case o.DistributeAcrossCores && o.PreferAlignByUncore:
		return bad(cores, "true", "false, because prefer-align-cpus-by-uncorecache is true")
	case o.DistributeAcrossNUMA && o.PreferAlignByUncore:
		return bad("cpuManagerPolicyOptions[distribute-cpus-across-numa]", "true", "false, because prefer-align-cpus-by-uncorecache is true")
	case o.AlignBySocket:
		return s.refuse(bad("cpuManagerPolicyOptions[align-by-socket]", "true", "false, because topologyManagerPolicy is single-numa-node"),
			PolicySingleNUMANode)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
