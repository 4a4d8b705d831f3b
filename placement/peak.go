package placement

// Peak computes the largest sum of amounts that containers of a pod have at the same time. Call Add
// for the containers in their order (KEP-753). Regular init containers run one at a time together
// with the sidecars before them. App containers run together with all sidecars.
type Peak[T int | int64 | uint64] struct {
	sidecars, init, apps T
}

// Add adds the amount of the next container.
func (p *Peak[T]) Add(kind ContainerKind, n T) {
	switch kind {
	case Sidecar:
		p.sidecars += n
	case Init:
		p.init = max(p.init, p.sidecars+n)
	default:
		p.apps += n
	}
}

// Most returns the largest amount that the pod has at one time.
func (p *Peak[T]) Most() T { return max(p.init, p.apps+p.sidecars) }

// Peaks is a Peak for each of several amounts.
type Peaks[K comparable] map[K]Peak[uint64]

// Add adds one amount of the next container.
func (ps Peaks[K]) Add(kind ContainerKind, of K, n uint64) {
	p := ps[of]
	p.Add(kind, n)
	ps[of] = p
}
