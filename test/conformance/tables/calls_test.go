package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// call is a recorded call.
type call struct {
	Call string          `json:"call"`
	In   json.RawMessage `json:"in"`
	Out  json.RawMessage `json:"out"`
}

// kubeHint is a TopologyHint; NUMA nil is its nil affinity.
type kubeHint struct {
	NUMA      []topology.NUMAID `json:"numa"`
	Preferred bool              `json:"preferred"`
}

func (h *kubeHint) in(s *hint.Space) hint.Hint {
	if h.NUMA == nil {
		return hint.Hint{Any: true, Preferred: h.Preferred}
	}
	return hint.Hint{Mask: s.Compact(topology.NewNUMASet(h.NUMA...)), Preferred: h.Preferred}
}

// spaceOf returns the space over some nodes. Calls with more nodes than the engine supports are
// left out.
func spaceOf(ids []topology.NUMAID) (*hint.Space, error) {
	if len(ids) > hint.MaxNodes && topology.NewNUMASet(ids...).Len() > hint.MaxNodes {
		return nil, errLeftOut
	}
	return hint.NewSpace(topology.NewNUMASet(ids...))
}

// sameHints compares a list of hints with the kubelet's.
func sameHints(s *hint.Space, want []kubeHint, got *hint.List) error {
	var w, g []string
	for i := range want {
		w = append(w, fmt.Sprint(topology.NewNUMASet(want[i].NUMA...), want[i].Preferred))
	}
	if got.Kind == hint.Masks {
		for _, m := range s.BySize() {
			if got.Offered.Has(m) {
				g = append(g, fmt.Sprint(s.Expand(m), got.Preferred.Has(m)))
			}
		}
	}
	slices.Sort(w)
	slices.Sort(g)
	if strings.Join(w, " ") != strings.Join(g, " ") {
		return fmt.Errorf("want hints %v, got %v", w, g)
	}
	return nil
}

// same compares only whether there is an error, because the texts differ.
func same(want string, got error) error {
	if (want != "") != (got != nil) {
		return fmt.Errorf("want error %q, got %v", want, got)
	}
	return nil
}
