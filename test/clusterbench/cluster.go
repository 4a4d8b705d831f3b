package main

import "slices"

// cluster measures both schedulers on each number of nodes.
func (b *bench) cluster() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds, true); err != nil {
		return err
	}
	c := &comparison{bench: b, kinds: kinds}
	for _, t := range b.options.tasks() {
		measure := c.pairs
		if t.cycles {
			measure = c.cycles
		}
		if err := measure(t); err != nil {
			return err
		}
	}
	return nil
}

// task is one part of a measurement, for an entry of options.nodes: a pair of runs of each profile
// and load, or the cycles of single pods.
type task struct {
	size, pair int
	cycles     bool
}

// tasks returns the parts of a comparison in order. If every pair has its own nodes, the first
// pairs of all sizes come before the second pairs. So a call that is interrupted has results for
// most sizes.
func (o *options) tasks() (out []task) {
	if o.fresh {
		for pair := range max(1, slices.Max(o.pairs)) {
			for size := range o.nodes {
				if pair < of(o.pairs, size) {
					out = append(out, task{size: size, pair: pair})
				}
				if pair == 0 {
					out = append(out, task{size: size, cycles: true})
				}
			}
		}
		return out
	}
	for size := range o.nodes { // they only become more
		for pair := range of(o.pairs, size) {
			out = append(out, task{size: size, pair: pair})
		}
		out = append(out, task{size: size, cycles: true})
	}
	return out
}
