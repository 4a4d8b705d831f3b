package scheduler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/wire"
)

// Args are the arguments of the plugin, pluginConfig[].args of a KubeSchedulerConfiguration. The
// zero value means the defaults.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// StaleAfter is how long after the last sign of life of a node's agent the node is refused for
	// pods that could be pinned. Default 60s.
	StaleAfter metav1.Duration `json:"staleAfter,omitempty"`
	// HeartbeatNamespace is where the agents keep their Leases. Default "berth-system".
	HeartbeatNamespace string `json:"heartbeatNamespace,omitempty"`
	// SettleAfter is how long after a pod has left the API an agent that is alive and does not list
	// it is believed. Default 5s.
	SettleAfter metav1.Duration `json:"settleAfter,omitempty"`
	// Patience is how long a pod that fits waits for a node on which it is certain what it gets,
	// before it takes one that admits it in every outcome but may give it other CPUs than
	// predicted. It waits up to five times as long, in all, for nodes that would take it on fewer
	// NUMA nodes and that wait for a report. Default 1s; negative means not at all. In a large
	// burst nobody waits to be certain.
	Patience metav1.Duration `json:"patience,omitempty"`
	// BestEffortAnywhere lets pods that ask for best-effort in Volcano's way go to nodes of any
	// policy. Default false: the node's must be best-effort, too.
	BestEffortAnywhere bool `json:"bestEffortAnywhere,omitempty"`
	// EvictsNobody keeps pods of the profile from evicting others, single pods and gangs alike.
	// Default false.
	EvictsNobody bool `json:"evictsNobody,omitempty"`
	// ProtectedNamespaces are the namespaces in which volcano.sh/preemptable: "false" protects pods
	// and gangs from eviction, except for system-critical pods. "*" is all, as with Volcano, and
	// the default; an empty list is none.
	ProtectedNamespaces wire.Namespaces `json:"protectedNamespaces,omitempty"`
	// NodesWithoutAgents is a label selector, as kubectl takes it. Nodes that match it and have no
	// report take pods without Berth's say: virtual nodes, on which no agent is expected. Default
	// none.
	NodesWithoutAgents string `json:"nodesWithoutAgents,omitempty"`
	// ExclusiveNamespaces are those whose pods may keep CPUs from others that they do not ask for,
	// if Berth decides: the rest of their cores, or of their NUMA nodes (berth.dev/exclusive, and
	// Koordinator's preferredCPUExclusivePolicy). "*" is all. Default none: others' pods are
	// refused, or lose the preference, unless they ask for all of these CPUs.
	ExclusiveNamespaces wire.Namespaces `json:"exclusiveNamespaces,omitempty"`
	// Keep is cpusNearDevices, or nothing. With it, CPUs beside devices are kept for pods that ask
	// for devices: on each NUMA node, pods that ask for none have together what is left when every
	// healthy device keeps as many CPUs as cpusPerDevice says. Default none: such a pod takes the
	// CPUs beside free devices last.
	Keep string `json:"keep,omitempty"`
	// CPUsPerDevice is how many CPUs keep holds for a device, by resource: as many as pods with one
	// device ask for. Devices of resources that are not named keep none.
	CPUsPerDevice map[string]int `json:"cpusPerDevice,omitempty"`
	// Claims is near, required or nothing: what pods with claims that have no berth.dev/claims ask.
	// It needs the plugin BerthClaims. Default nothing.
	Claims string `json:"claims,omitempty"`
	// NUMAAttributes are attributes of devices in which drivers give the number of a NUMA node,
	// such as gpu.example.com/numaNode. They are read before those that Berth knows, and after
	// resource.kubernetes.io/numaNode. Default none.
	NUMAAttributes []string `json:"numaAttributes,omitempty"`
	// GangTimeout is how long the members of a gang wait for each other, from the plan on, if the
	// gang names no time. Default 1m.
	GangTimeout metav1.Duration `json:"gangTimeout,omitempty"`
	// Admission says when groups are let in that name resources (minResources of a PodGroup), and
	// for how long what they have not used yet is kept for them.
	Admission gangs.Admission `json:"admission,omitempty"`
	// VolcanoLease is the Lease of Volcano's own controller, NAMESPACE/NAME. While it is renewed,
	// pods that name the scheduler volcano wait until that controller has given them a group, for
	// 30 s at most. Default "volcano-system/vc-controller-manager".
	VolcanoLease string `json:"volcanoLease,omitempty"`
	// ReservationOwnersNeedNamespace refuses Reservations with an owner that names no namespace:
	// pods of every namespace could have what they hold. Default false, as with Koordinator.
	ReservationOwnersNeedNamespace bool `json:"reservationOwnersNeedNamespace,omitempty"`
	// MaxNodes is how many nodes the scheduler looks at for a pod that could be pinned, if there
	// are so many that kube-scheduler would look at a part of them. A larger
	// percentageOfNodesToScore holds. Default 5000.
	MaxNodes int `json:"maxNodes,omitempty"`
	// Candidates is how many nodes Berth names to the other plugins at a time: the best of all by
	// its own account. More cost more, and give the scores of other plugins more to choose from.
	// Default 32; negative means that kube-scheduler searches for nodes as it does for any other
	// pod, and maxNodes has no effect.
	Candidates int `json:"candidates,omitempty"`
	// Scoring decides which of the nodes that take a pod is best; "volcano" alone stands for
	// Volcano's formula.
	Scoring rank.Scoring `json:"scoring,omitempty"`
}

// ParseArgs reads the plugin's arguments, sets the defaults and validates them. The error names
// field, value and what would be right.
func ParseArgs(obj runtime.Object) (Args, error) {
	var a Args
	if err := decodeArgs(obj, &a); err != nil {
		return Args{}, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	a.fillIn()
	if err := a.validate(); err != nil {
		return Args{}, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	return a, nil
}

// NoArgs returns an error if a plugin is given any arguments.
func NoArgs(obj runtime.Object) error { return decodeArgs(obj, &struct{}{}) }

func decodeArgs(obj runtime.Object, into any) error {
	switch o := obj.(type) {
	case nil:
		return nil
	case *runtime.Unknown:
		if len(bytes.TrimSpace(o.Raw)) == 0 {
			return nil
		}
		raw, err := yaml.YAMLToJSONStrict(o.Raw)
		if err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		return d.Decode(into)
	default:
		return fmt.Errorf("got %T, want JSON or YAML", obj)
	}
}

func (a *Args) fillIn() {
	a.StaleAfter.Duration = cmp.Or(a.StaleAfter.Duration, time.Minute)
	a.HeartbeatNamespace = cmp.Or(a.HeartbeatNamespace, v1alpha1.HeartbeatNamespace)
	a.SettleAfter.Duration = cmp.Or(a.SettleAfter.Duration, 5*time.Second)
	a.Patience.Duration = cmp.Or(a.Patience.Duration, time.Second)
	a.GangTimeout.Duration = cmp.Or(a.GangTimeout.Duration, time.Minute)
	a.MaxNodes = cmp.Or(a.MaxNodes, 5000)
	a.Candidates = cmp.Or(a.Candidates, 32)
	a.VolcanoLease = cmp.Or(a.VolcanoLease, "volcano-system/vc-controller-manager")
	a.Admission.FillIn()
	if a.ProtectedNamespaces == nil {
		a.ProtectedNamespaces = wire.Namespaces{wire.AnyNamespace}
	}
	a.Scoring.FillIn()
}

func (a *Args) validate() error {
	if a.StaleAfter.Duration < time.Second {
		return fmt.Errorf("staleAfter: %s: want at least 1s", a.StaleAfter.Duration)
	}
	if a.SettleAfter.Duration < 0 {
		return fmt.Errorf("settleAfter: %s: want a duration that is not negative", a.SettleAfter.Duration)
	}
	if a.GangTimeout.Duration < time.Second {
		return fmt.Errorf("gangTimeout: %s: want at least 1s", a.GangTimeout.Duration)
	}
	if a.MaxNodes < 1 || a.MaxNodes > maxMaxNodes {
		return fmt.Errorf("maxNodes: %d: want 1 to %d", a.MaxNodes, maxMaxNodes)
	}
	if a.Candidates >= 0 && a.Candidates < minCandidates || a.Candidates > maxCandidates {
		return fmt.Errorf("candidates: %d: want %d to %d, or a negative number for no search of Berth's own", a.Candidates, minCandidates, maxCandidates)
	}
	if err := a.ProtectedNamespaces.Check("protectedNamespaces"); err != nil {
		return err
	}
	if _, err := a.withoutAgents(); err != nil {
		return err
	}
	if lease := a.volcanoLease(); len(validation.IsDNS1123Label(lease.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(lease.Name)) > 0 {
		return fmt.Errorf("volcanoLease: %q: want NAMESPACE/NAME", a.VolcanoLease)
	}
	if err := a.Admission.Check(); err != nil {
		return err
	}
	if _, ok := dra.ParseMode(a.Claims); !ok && a.Claims != "" {
		return fmt.Errorf("claims: %.100q: want %s, or nothing", a.Claims, dra.ModesWanted)
	}
	if _, err := a.sources(); err != nil {
		return err
	}
	if _, err := a.terms(); err != nil {
		return err
	}
	return a.Scoring.Validate()
}

// looksAt is how many nodes the scheduler looks at for a pod that could be pinned; 0 for as many as
// for any other pod.
func (a *Args) looksAt() int {
	if a.Candidates < 0 {
		return 0
	}
	return a.MaxNodes
}

func (a *Args) volcanoLease() types.NamespacedName {
	namespace, name, _ := strings.Cut(a.VolcanoLease, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// withoutAgents returns the selector of nodes on which no agent is expected. The selector of
// nothing selects none.
func (a *Args) withoutAgents() (labels.Selector, error) {
	if a.NodesWithoutAgents == "" {
		return labels.Nothing(), nil
	}
	selector, err := labels.Parse(a.NodesWithoutAgents)
	if err != nil {
		return nil, fmt.Errorf("nodesWithoutAgents: %.100q: want a label selector, such as type=virtual-kubelet: %w", a.NodesWithoutAgents, err)
	}
	return selector, nil
}

// sources returns the attributes of devices that say where they are.
func (a *Args) sources() (dra.Sources, error) {
	sources, err := dra.DefaultSources().With(a.NUMAAttributes)
	if err != nil {
		return sources, fmt.Errorf("numaAttributes: %w", err)
	}
	return sources, nil
}

// terms returns what the arguments say about every pod.
func (a *Args) terms() (wire.Terms, error) {
	t := wire.Terms{ExclusiveNamespaces: a.ExclusiveNamespaces, Keep: a.Keep, CPUsPerDevice: a.CPUsPerDevice, BestEffortAnywhere: a.BestEffortAnywhere}
	return t, t.Check()
}

// With fewer candidates, one plugin that refuses some of them makes the search start again; with
// more, they cost as much as asking about all nodes.
const (
	minCandidates = 16
	maxCandidates = 1024
)

// maxMaxNodes is more than any cluster has.
const maxMaxNodes = 1_000_000
