package main

import (
	"slices"
)

// gangs measures the same pods in gangs and one by one, both placed by Berth, in pairs.
func (b *bench) gangs() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds, true); err != nil {
		return err
	}
	for i, nodes := range b.options.nodes {
		if err := b.grow(nodes); err != nil {
			return err
		}
		if i == 0 && b.options.warmUp > 0 {
			if err := b.warmUpGangs(nodes); err != nil {
				return err
			}
		}
		pods := of(b.options.pods, i) / gangSize * gangSize
		for pair := range of(b.options.pairs, i) {
			if err := b.gangPair(nodes, pair, pods); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) warmUpGangs(nodes int) error {
	r, err := b.run(runKey{Nodes: nodes, Load: loadPinned, Scheduler: berth}, b.options.warmUp)
	if err == nil {
		b.say("not counted: %s", r.String())
	}
	return err
}

// gangPair measures both loads, in an order that changes from pair to pair.
func (b *bench) gangPair(nodes, pair, pods int) error {
	loads := []string{loadPinned, loadGangs}
	if pair%2 == 1 {
		slices.Reverse(loads)
	}
	for _, load := range loads {
		r, err := b.run(runKey{Nodes: nodes, Load: load, Scheduler: berth, Pair: pair}, pods)
		if err != nil {
			return err
		}
		b.result.Runs = append(b.result.Runs, r)
		b.say("%s", r.String())
		if err := b.keep(); err != nil {
			return err
		}
	}
	return nil
}
