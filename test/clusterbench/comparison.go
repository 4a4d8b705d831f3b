package main

import (
	"fmt"
	"time"
)

// comparison measures both schedulers.
type comparison struct {
	*bench
	kinds []*nodeKind
	stage stage // what the control plane is for
}

// stage identifies a control plane: an entry of options.nodes and, with options.fresh, a pair, from
// 1 on.
type stage struct{ size, pair int }

// enter makes the nodes of a stage. A control plane that is new is warmed up.
func (c *comparison) enter(at stage) error {
	fresh := c.stage == stage{}
	switch {
	case c.stage == at:
		return nil
	case c.options.fresh && !fresh:
		if err := c.renew(c.kinds); err != nil {
			return err
		}
		fresh = true
	}
	c.stage = at
	nodes := c.options.nodes[at.size]
	if err := c.grow(nodes); err != nil || !fresh || c.options.warmUp == 0 {
		return err
	}
	return c.warmUp(nodes)
}

// pairs measures a pair of each profile and load, except those already measured.
func (c *comparison) pairs(t task) error {
	for _, profile := range c.options.profiles {
		for _, load := range c.options.loads {
			key := runKey{Nodes: c.options.nodes[t.size], Load: load, Profile: profile, Pair: t.pair}
			pods := of(c.options.pods, t.size)
			if c.result.has(key, pods) {
				continue
			}
			at := stage{t.size, 1}
			if c.options.fresh {
				at.pair += t.pair
			}
			if err := c.enter(at); err != nil {
				return err
			}
			if err := c.pair(key, pods); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmUp runs both schedulers once without counting. Afterwards, the database, the API server's
// caches and the simulator have grown to their size.
func (c *comparison) warmUp(nodes int) error {
	defer c.took("warm-up", time.Now())
	for _, who := range inTurn(0) {
		r, err := c.run(runKey{Nodes: nodes, Load: c.options.loads[0], Profile: c.options.profiles[0], Scheduler: who}, c.options.warmUp)
		if err != nil {
			return err
		}
		c.say("not counted: %s", r.String())
	}
	return nil
}

// pair measures both schedulers in turn.
func (c *comparison) pair(key runKey, pods int) error {
	defer c.took(fmt.Sprintf("pairs of %d pods on %d nodes", pods, key.Nodes), time.Now())
	for _, who := range inTurn(key.Pair) {
		key.Scheduler = who
		r, err := c.run(key, pods)
		if err != nil {
			return err
		}
		c.result.Runs = append(c.result.Runs, r)
		c.say("%s", r.String())
		if err := c.keep(); err != nil {
			return err
		}
	}
	return nil
}
