package scheduler

import (
	"encoding/json"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// kind is a machine with a kubelet's configuration: what many nodes of a cluster have in common. It is immutable.
type kind struct {
	spec  *v1alpha1.NodeTopologySpec
	wired wire.NodeSpec
	model *placement.Model
}

// maxKinds bounds how many kinds are remembered; nodes keep theirs.
const maxKinds = 1024

// kinds compiles every kind once. Only the feed uses it.
type kinds struct{ bySpec map[string]*kind }

// of returns the kind of a node. The error says what is wrong with the spec.
func (k *kinds) of(nt *v1alpha1.NodeTopology) (*kind, error) {
	key, err := json.Marshal(&nt.Spec)
	if err != nil {
		return nil, err
	}
	if found, ok := k.bySpec[string(key)]; ok {
		return found, nil
	}
	made, err := newKind(nt)
	if err != nil {
		return nil, err
	}
	if k.bySpec == nil || len(k.bySpec) >= maxKinds {
		k.bySpec = map[string]*kind{}
	}
	k.bySpec[string(key)] = made
	return made, nil
}

func newKind(nt *v1alpha1.NodeTopology) (*kind, error) {
	wired, err := wire.ReadNodeSpec(nt)
	if err != nil {
		return nil, err
	}
	if wired.Authority != v1alpha1.AuthorityKubelet {
		return nil, &wire.FieldError{Object: "NodeTopology " + nt.Name, Field: "spec.authority",
			Value: string(wired.Authority), Want: string(v1alpha1.AuthorityKubelet) + ", the one that this release places on"}
	}
	// A scheduler does not do to a node what the kubelet is known to break over.
	wired.Config.GuardDefects = true
	model, err := placement.NewModel(wired.View, wired.Config)
	if err != nil {
		return nil, err
	}
	return &kind{spec: nt.Spec.DeepCopy(), wired: wired, model: model}, nil
}
