package nodestate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// NodeKind is a machine with a kubelet's configuration, which many nodes of a cluster share. It is
// immutable.
type NodeKind struct {
	// Spec has the machine, the kubelet's view, the configuration and the authority.
	Spec wire.NodeSpec
	// Model is the compiled Spec, or nil if Berth cannot predict such a kubelet.
	Model *placement.Model

	source    *v1alpha1.NodeTopologySpec
	providers []placement.Provider
	// offered are the devices that Berth assigns, healthy or not.
	offered []placement.DevicePool
	// coarse means that the kind was read from a coarse report.
	coarse bool
}

// maxKinds is the maximum number of kinds in the cache. A node keeps its kind even if the cache
// drops the kind.
const maxKinds = 1024

// Kinds compiles every kind once. The zero value is ready to use. It is safe for concurrent use.
type Kinds struct {
	// Providers are the placement providers that assign their own resources on every node. Set them
	// before the first read.
	Providers []placement.Provider

	mu     sync.Mutex
	bySpec map[string]func() (*NodeKind, error)
}

// The method of returns the kind of a node. The argument last is the node's previous kind, or nil.
// If the previous kind still describes the node, it is the result. If the spec cannot be read, the
// result is nil and an error. If Berth cannot predict such a kubelet, the result is a kind without
// a Model, and an error with the reason. Errors are not cached, because they may name the node.
func (k *Kinds) of(nt *v1alpha1.NodeTopology, last *NodeKind) (*NodeKind, error) {
	switch {
	case nt.Malformed != "":
		return k.newKind(nt)
	case last != nil && !last.coarse && last.Model != nil && reflect.DeepEqual(last.source, &nt.Spec) &&
		reflect.DeepEqual(last.offered, wire.DecidedPools(nt)):
		return last, nil
	}
	key, err := json.Marshal(&nt.Spec)
	if err != nil {
		return nil, err
	}
	if offered := wire.DecidedPools(nt); offered != nil {
		key = fmt.Appendf(key, "%v", offered)
	}
	return k.shared(string(key), func() (*NodeKind, error) { return k.newKind(nt) })
}

// shared returns the kind with the given key, which it compiles only once. An error is not shared:
// for the next node with the key, the function compile runs again.
func (k *Kinds) shared(key string, compile func() (*NodeKind, error)) (*NodeKind, error) {
	k.mu.Lock()
	found, ok := k.bySpec[key]
	if !ok {
		if k.bySpec == nil || len(k.bySpec) >= maxKinds {
			k.bySpec = map[string]func() (*NodeKind, error){}
		}
		found = sync.OnceValues(compile)
		k.bySpec[key] = found
	}
	k.mu.Unlock()
	if kind, err := found(); err == nil {
		return kind, nil
	}
	return compile()
}

func (k *Kinds) newKind(nt *v1alpha1.NodeTopology) (*NodeKind, error) {
	spec, err := wire.ReadNodeSpec(nt)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(spec, wire.DecidedPools(nt), k.Providers)
	kind.source = nt.Spec.DeepCopy()
	return kind, err
}

// kindOf compiles a spec, with the devices that Berth assigns on such nodes. If Berth cannot
// predict such a kubelet, the kind has no Model, and the error has the reason.
func kindOf(spec wire.NodeSpec, offered []placement.DevicePool, providers []placement.Provider) (*NodeKind, error) {
	// The scheduler must not place a pod that triggers a known defect of the kubelet.
	spec.Config.GuardDefects = true
	spec.Config.Devices = placement.DevicesOf(spec.Machine, offered)
	kind := &NodeKind{Spec: spec, offered: offered, providers: providers}
	spec.Config.Providers = providers
	var err error
	kind.Model, err = placement.NewModel(spec.View, spec.Config)
	return kind, err
}
