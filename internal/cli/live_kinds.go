package cli

import (
	"encoding/json"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// kind is a machine with a kubelet's configuration, which many nodes of a cluster have in common. It is immutable.
type kind struct {
	// spec and model are nil where they could not be understood; err says why.
	spec  *wire.NodeSpec
	model *placement.Model
	err   error
}

// kinds understands every kind once. The zero value is empty and ready; it is safe for concurrent use.
type kinds struct {
	mu     sync.Mutex
	bySpec map[string]func() *kind
}

// of returns the kind of a node. An error names the node that was seen first, so kinds that are wrong are not shared.
func (k *kinds) of(nt *v1alpha1.NodeTopology) *kind {
	key, err := json.Marshal(&nt.Spec)
	if err != nil {
		return &kind{err: err}
	}
	k.mu.Lock()
	if k.bySpec == nil {
		k.bySpec = map[string]func() *kind{}
	}
	make, ok := k.bySpec[string(key)]
	if !ok {
		make = sync.OnceValue(func() *kind { return newKind(nt) })
		k.bySpec[string(key)] = make
	}
	k.mu.Unlock()
	if found := make(); found.err == nil {
		return found
	}
	return newKind(nt)
}

func newKind(nt *v1alpha1.NodeTopology) *kind {
	spec, err := wire.ReadNodeSpec(nt)
	if err != nil {
		return &kind{err: err}
	}
	k := &kind{spec: &spec}
	if spec.Authority != v1alpha1.AuthorityKubelet {
		k.err = &placement.ConfigError{Field: "spec.authority", Value: string(spec.Authority), Want: "kubelet, the one that this release places on", Unsupported: true}
		return k
	}
	spec.Config.GuardDefects = true // a scheduler does not do to a node what its kubelet is known to break over
	k.model, k.err = placement.NewModel(spec.View, spec.Config)
	return k
}

// inParallel calls do for 0 to n-1, on every CPU there is.
func inParallel(n int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	const chunk = 16
	for from := 0; from < n; from += chunk {
		g.Go(func() error {
			for i := from; i < min(n, from+chunk); i++ {
				do(i)
			}
			return nil
		})
	}
	_ = g.Wait() // do returns nothing
}
