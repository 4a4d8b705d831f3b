package scheduler

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/scheduler/steer"
	"github.com/berth-dev/berth/internal/wire"
)

// Args are the arguments of the plugin, pluginConfig[].args of a KubeSchedulerConfiguration. The
// zero value means the defaults.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// StaleAfter limits the time without a heartbeat or report of a node's agent. After it, the
	// scheduler refuses the node for pods that could be pinned. Default 60s.
	StaleAfter metav1.Duration `json:"staleAfter,omitempty"`
	// HeartbeatNamespace is the namespace of the agents' Leases. Default "berth-system".
	HeartbeatNamespace string `json:"heartbeatNamespace,omitempty"`
	// SettleAfter is the time after which the resources of a pod that has left the API count as
	// released, if an active agent does not list the pod. Default 5s.
	SettleAfter metav1.Duration `json:"settleAfter,omitempty"`
	// Patience is the time for which a pod that fits waits for a node on which its CPUs are
	// certain. After that, the scheduler places the pod on a node that certainly admits it, but may
	// give it other CPUs than predicted. For a node that must report first, and on which the pod
	// would need fewer NUMA nodes, the pod waits up to five times as long in total. Default 1s; a
	// negative value means that pods do not wait. In a large burst no pod waits for certain CPUs.
	Patience metav1.Duration `json:"patience,omitempty"`
	// BestEffortAnywhere lets pods with Volcano's policy best-effort use nodes with any topology
	// manager policy. Default false: the node's policy must be best-effort, too.
	BestEffortAnywhere bool `json:"bestEffortAnywhere,omitempty"`
	// EvictsNobody prevents pods and gangs of the profile from evicting other pods. Default false.
	EvictsNobody bool `json:"evictsNobody,omitempty"`
	// ProtectedNamespaces are the namespaces in which volcano.sh/preemptable: "false" protects pods
	// and gangs from eviction, except for system-critical pods. "*" means all namespaces, as with
	// Volcano, and is the default. An empty list means none.
	ProtectedNamespaces wire.Namespaces `json:"protectedNamespaces,omitempty"`
	// NodesWithoutAgents is a label selector in kubectl's form. Nodes that match it and have no
	// report accept pods without Berth's decision. It is for nodes without an agent, for example
	// virtual nodes. Default none.
	NodesWithoutAgents string `json:"nodesWithoutAgents,omitempty"`
	// ExclusiveNamespaces are the namespaces whose pods may exclude other pods from CPUs that they
	// do not request, if Berth decides: the other CPUs of their cores or of their NUMA nodes
	// (berth.dev/exclusive, and Koordinator's preferredCPUExclusivePolicy). "*" means all. Default
	// none: pods that do not request all of these CPUs are refused, or lose the preference.
	ExclusiveNamespaces wire.Namespaces `json:"exclusiveNamespaces,omitempty"`
	// Keep is cpusNearDevices or empty. cpusNearDevices keeps CPUs next to devices for pods that
	// request devices. On each NUMA node, cpusPerDevice CPUs are kept for every healthy device, and
	// all pods without devices share the rest. By default no CPUs are kept: a pod without devices
	// only gets the CPUs next to free devices last.
	Keep string `json:"keep,omitempty"`
	// CPUsPerDevice is, by resource, the number of CPUs that Keep reserves for one device. Set it
	// to the number of CPUs that pods with one device request. No CPUs are kept for devices of
	// other resources.
	CPUsPerDevice map[string]int `json:"cpusPerDevice,omitempty"`
	// Claims is near, required or empty: the default for pods with claims and without
	// berth.dev/claims. It needs the plugin BerthClaims. Default empty.
	Claims string `json:"claims,omitempty"`
	// NUMAAttributes are attributes of devices in which drivers publish the number of a NUMA node,
	// such as gpu.example.com/numaNode. Berth reads resource.kubernetes.io/numaNode first, then
	// these attributes, then the drivers' attributes that it knows. Default none.
	NUMAAttributes []string `json:"numaAttributes,omitempty"`
	// GangTimeout is the time that the members of a gang wait for each other after the plan, if the
	// gang sets no time. Default 1m.
	GangTimeout metav1.Duration `json:"gangTimeout,omitempty"`
	// Admission decides when groups with minResources are admitted, and for how long resources that
	// they do not use yet are kept for them.
	Admission gangs.Admission `json:"admission,omitempty"`
	// VolcanoLease is the Lease of Volcano's own controller, NAMESPACE/NAME. While it is renewed,
	// pods that name the scheduler volcano wait for at most 30 s until that controller has given
	// them a group. Default "volcano-system/vc-controller-manager".
	VolcanoLease string `json:"volcanoLease,omitempty"`
	// ReservationOwnersNeedNamespace refuses Reservations with an owner without a namespace,
	// because pods of every namespace could use them. Default false, as with Koordinator.
	ReservationOwnersNeedNamespace bool `json:"reservationOwnersNeedNamespace,omitempty"`
	// MaxNodes is the number of feasible nodes after which the search for a pod that could be
	// pinned ends. kube-scheduler's own search ends earlier in clusters of more than 100 nodes. If
	// percentageOfNodesToScore means more nodes, it takes precedence. Default 5000.
	MaxNodes int `json:"maxNodes,omitempty"`
	// Candidates is the number of nodes that Berth names to the other plugins at a time: the best
	// nodes by its own ranking. With a larger number, a search takes longer, and the scores of
	// other plugins decide among more nodes. Default 32; negative means that kube-scheduler
	// searches for nodes as for any other pod, and maxNodes has no effect.
	Candidates int `json:"candidates,omitempty"`
	// Scoring decides which of the nodes that admit a pod is best. The string "volcano" selects
	// Volcano's formula.
	Scoring rank.Scoring `json:"scoring,omitempty"`
}

// ParseArgs reads the plugin's arguments, sets the defaults and validates them. The error names
// field, value and the expected form.
func ParseArgs(obj runtime.Object) (Args, error) {
	var a Args
	if err := steer.DecodeArgs(obj, &a); err != nil {
		return Args{}, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	a.fillIn()
	if err := a.validate(); err != nil {
		return Args{}, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	return a, nil
}

// NoArgs returns an error if a plugin is given any arguments.
func NoArgs(obj runtime.Object) error { return steer.DecodeArgs(obj, &struct{}{}) }

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
		return fmt.Errorf("candidates: %d: want %d to %d, or a negative number to leave the search for nodes to kube-scheduler", a.Candidates, minCandidates, maxCandidates)
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
	if _, err := a.terms(); err != nil {
		return err
	}
	return a.Scoring.Validate()
}

// looksAt returns the number of feasible nodes after which the search for a pod that could be
// pinned ends. 0 means the same number as for any other pod.
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

// withoutAgents returns the selector of nodes on which no agent is expected.
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

// terms returns the settings that apply to every pod.
func (a *Args) terms() (wire.Terms, error) {
	t := wire.Terms{
		ExclusiveNamespaces: a.ExclusiveNamespaces, Keep: a.Keep, CPUsPerDevice: a.CPUsPerDevice, BestEffortAnywhere: a.BestEffortAnywhere,
		Claims: a.Claims, NUMAAttributes: a.NUMAAttributes,
	}
	return t, t.Check()
}

// With fewer candidates than the minimum, another plugin would often refuse all of them and make
// another search necessary. With more than the maximum, a search takes as long as a check of all
// nodes.
const (
	minCandidates = 16
	maxCandidates = 1024
)

// maxMaxNodes is more than the number of nodes in any cluster.
const maxMaxNodes = 1_000_000
