package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// Args are the arguments of the plugin, pluginConfig[].args of a KubeSchedulerConfiguration. The zero value stands
// for the defaults.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// StaleAfter is how long after the last sign of life of a node's agent the node is refused for pods that could be
	// pinned. Default 60s.
	StaleAfter metav1.Duration `json:"staleAfter,omitempty"`
	// HeartbeatNamespace is where the agents keep their Leases. Default "berth-system".
	HeartbeatNamespace string `json:"heartbeatNamespace,omitempty"`
	// SettleAfter is how long after a pod has left the API an agent that is alive and does not list it is believed.
	// Default 5s.
	SettleAfter metav1.Duration `json:"settleAfter,omitempty"`
	// Patience is how long a pod that fits waits for a node on which it is certain what it gets, before it takes one
	// that admits it in every outcome but may give it other CPUs than predicted. Default 1s; negative means not at all.
	Patience metav1.Duration `json:"patience,omitempty"`
	// Scoring ranks the nodes that take a pod.
	Scoring Scoring `json:"scoring,omitempty"`
}

// Strategy says whether full or empty NUMA nodes are preferred.
type Strategy string

const (
	// MostAllocated prefers the NUMA nodes with the least room that suffices, so that large free blocks survive.
	MostAllocated Strategy = "MostAllocated"
	// LeastAllocated prefers the NUMA nodes with the most room.
	LeastAllocated Strategy = "LeastAllocated"
)

// Scoring weighs what makes a node good. Weights are relative to each other; all zero means the defaults.
type Scoring struct {
	// Strategy of the fit. Default MostAllocated.
	Strategy Strategy `json:"strategy,omitempty"`
	// Certainty weighs that what the node will do is known to the CPU. Default 8.
	Certainty int64 `json:"certainty,omitempty"`
	// NUMANodes weighs that the pod is spread over few NUMA nodes. Default 4.
	NUMANodes int64 `json:"numaNodes,omitempty"`
	// Fit weighs the strategy. Default 2.
	Fit int64 `json:"fit,omitempty"`
	// Distance weighs that the NUMA nodes of the pod are close to each other. Default 1.
	Distance int64 `json:"distance,omitempty"`
}

// maxWeight bounds a weight, so that sums cannot overflow.
const maxWeight = 1000

// ParseArgs reads the plugin's arguments, fills in the defaults and refuses what cannot be right. The error names
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

func decodeArgs(obj runtime.Object, into *Args) error {
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
	if a.StaleAfter.Duration == 0 {
		a.StaleAfter.Duration = time.Minute
	}
	if a.HeartbeatNamespace == "" {
		a.HeartbeatNamespace = v1alpha1.HeartbeatNamespace
	}
	if a.SettleAfter.Duration == 0 {
		a.SettleAfter.Duration = 5 * time.Second
	}
	if a.Patience.Duration == 0 {
		a.Patience.Duration = time.Second
	}
	s := &a.Scoring
	if s.Strategy == "" {
		s.Strategy = MostAllocated
	}
	if s.Certainty == 0 && s.NUMANodes == 0 && s.Fit == 0 && s.Distance == 0 {
		s.Certainty, s.NUMANodes, s.Fit, s.Distance = 8, 4, 2, 1
	}
}

func (a *Args) validate() error {
	if a.StaleAfter.Duration < time.Second {
		return fmt.Errorf("staleAfter: %s: want at least 1s", a.StaleAfter.Duration)
	}
	if a.SettleAfter.Duration < 0 {
		return fmt.Errorf("settleAfter: %s: want a duration that is not negative", a.SettleAfter.Duration)
	}
	if s := a.Scoring.Strategy; s != MostAllocated && s != LeastAllocated {
		return fmt.Errorf("scoring.strategy: %.40q: want %s or %s", s, MostAllocated, LeastAllocated)
	}
	for _, w := range []struct {
		name   string
		weight int64
	}{{"certainty", a.Scoring.Certainty}, {"numaNodes", a.Scoring.NUMANodes}, {"fit", a.Scoring.Fit}, {"distance", a.Scoring.Distance}} {
		if w.weight < 0 || w.weight > maxWeight {
			return fmt.Errorf("scoring.%s: %d: want a weight from 0 to %d", w.name, w.weight, maxWeight)
		}
	}
	return nil
}
