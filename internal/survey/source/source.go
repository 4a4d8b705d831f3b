// Package source reads the objects that a survey needs, from an API server or from a snapshot file.
// It can also follow changes through an API server. It writes nothing to the cluster.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
)

// errNotInstalled means that the cluster does not have the kind NodeTopology.
var errNotInstalled = errors.New("this cluster does not serve nodetopologies.berth.dev: install Berth first (see docs/install.md)")

// Options select the cluster, and configure how it is read.
type Options struct {
	// Config is the configuration for the API server. It is copied.
	Config *rest.Config
	// Namespace is the namespace of pods; metav1.NamespaceAll means all.
	Namespace string
	// Heartbeats is the namespace of the agents' Leases.
	Heartbeats string
	// StaleAfter is the time without a heartbeat or report after which an agent counts as silent.
	StaleAfter time.Duration
	// Terms are the scheduler's arguments that apply to every pod. They must be valid.
	Terms wire.Terms
	// Where names the data source in errors: the API server and the kubeconfig, or the snapshot.
	Where string
}

// Source is an API server, or a file with its data at one moment.
type Source interface {
	// Now returns the time by the API server's clock, or the time of the snapshot.
	Now() time.Time
	// Facts returns the facts about nodes. The argument `only` is the name of one node, or "" for
	// all.
	Facts(ctx context.Context, only string) (*Facts, error)
	NodeNames(ctx context.Context) ([]string, error)
	Namespaces(ctx context.Context) ([]string, error)
	// PodsIn returns the pods of a namespace, bound or not. The argument `only` is the name of one
	// pod, or "" for all pods.
	PodsIn(ctx context.Context, namespace, only string) ([]corev1.Pod, error)
	// Pod returns one pod, or nil if there is none.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// GroupsIn returns the objects of a namespace that declare gangs. It omits kinds that are not
	// served.
	GroupsIn(ctx context.Context, namespace string) (*Groups, error)
	// Budgets returns the PodDisruptionBudgets of all namespaces.
	Budgets(ctx context.Context) ([]policyv1.PodDisruptionBudget, error)
	// PriorityClasses returns all PriorityClasses. It fails with ErrNoClasses for a snapshot.
	PriorityClasses(ctx context.Context) ([]PriorityClass, error)
	// DeviceClasses returns the extended resources by which pods can request devices of device
	// classes. Every class has a resource with a default name, and may name another one; the result
	// has both. The notes name missing permissions.
	DeviceClasses(ctx context.Context) (classes map[corev1.ResourceName]bool, notes []string, err error)
	// HandedOut returns the objects of Dynamic Resource Allocation. If the user may not read claims
	// of all namespaces, it returns only the claims of the given namespace.
	HandedOut(ctx context.Context, namespace string) (*HandedOut, error)
	// ClaimTemplates returns the ResourceClaimTemplates of a namespace. The notes name missing
	// permissions.
	ClaimTemplates(ctx context.Context, namespace string) (all []*resourcev1.ResourceClaimTemplate, notes []string, err error)
}

// Facts has the objects from which the states of nodes are computed, read at about the same time.
type Facts struct {
	Reports []v1alpha1.NodeTopology
	Nodes   []corev1.Node
	// Coarse are the reports that contain only amounts, in the order of apiclient.CoarseKinds.
	// served marks the kinds that are served and may be read.
	Coarse []metav1.Object
	served [2]bool
	// Reservations are Koordinator's Reservations, if they are served and may be read.
	Reservations       []*koordinator.Reservation
	reservationsServed bool
	// Beats are the last heartbeats of agents, by node.
	Beats map[string]Beat
	// Pods are the bound pods of all namespaces; nil if they may not be read.
	Pods []corev1.Pod
	// NodesKnown, BeatsKnown and PodsKnown are true if Nodes, Beats and Pods may be read.
	NodesKnown, BeatsKnown, PodsKnown bool
	// Notes describe data that may not be read.
	Notes []string
}

// Beat is a heartbeat, with the time at which the API server received it.
type Beat struct {
	nodestate.Heartbeat
	Written time.Time
}

// NodeFacts has the objects about one node.
type NodeFacts struct {
	Object *corev1.Node           // nil if there is none, or it may not be read
	Report *v1alpha1.NodeTopology // nil if there is none
	Coarse []metav1.Object        // reports of other exporters, the preferred report first
	Beat   Beat                   // the agent's last heartbeat, zero if there is none
	Pods   []*corev1.Pod          // bound to the node
	// NodesKnown means that Nodes may be read. BeatsKnown means that heartbeats could be received.
	NodesKnown, BeatsKnown bool
	// Now is the time by the API server's clock.
	Now time.Time
}

// ByNode groups the objects of f, except the pods, by node. The result includes nodes that have a
// NodeTopology but no Node.
func (f *Facts) ByNode() map[string]*NodeFacts {
	out := map[string]*NodeFacts{}
	of := func(name string) *NodeFacts {
		if out[name] == nil {
			out[name] = &NodeFacts{Beat: f.Beats[name], NodesKnown: f.NodesKnown, BeatsKnown: f.BeatsKnown}
		}
		return out[name]
	}
	for i := range f.Nodes {
		of(f.Nodes[i].Name).Object = &f.Nodes[i]
	}
	for i := range f.Reports {
		of(f.Reports[i].Name).Report = &f.Reports[i]
	}
	for _, o := range f.Coarse {
		if out[o.GetName()] != nil || !f.NodesKnown {
			of(o.GetName()).Coarse = append(of(o.GetName()).Coarse, o)
		}
	}
	return out
}

// PlaceOf returns the node on which a Reservation holds its place, or "".
func PlaceOf(o *koordinator.Reservation) string {
	if o.Status.Phase != koordinator.ReservationAvailable {
		return ""
	}
	return o.Status.NodeName
}

// Groups has the objects that declare gangs, as JSON.
type Groups struct {
	List []json.RawMessage
	// Hidden has the kinds that may not be read. Notes has a note about each of them.
	Hidden map[wire.GangSource]bool
	Notes  []string
}

// HandedOut has the objects of Dynamic Resource Allocation. A list is nil if it could not be read;
// Notes then has the reason.
type HandedOut struct {
	Slices  []*resourcev1.ResourceSlice
	Claims  []*resourcev1.ResourceClaim
	Classes []*resourcev1.DeviceClass
	Notes   []string
	// One means that claims may be read only in one namespace at a time. Absent means that the
	// kinds are not served, or that a snapshot has no ResourceSlices.
	One, Absent bool
}

// Claim returns the claim with the name, or nil if there is none.
func (h *HandedOut) Claim(namespace, name string) *resourcev1.ResourceClaim {
	for _, c := range h.Claims {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

// ErrNoClasses is the error of reading PriorityClasses from a snapshot.
var ErrNoClasses = errors.New("a snapshot has no PriorityClasses")

// PriorityClass has the fields of a PriorityClass that determine a pod's priority.
type PriorityClass struct {
	Metadata      metav1.ObjectMeta `json:"metadata"`
	Value         int32             `json:"value"`
	GlobalDefault bool              `json:"globalDefault"`
}
