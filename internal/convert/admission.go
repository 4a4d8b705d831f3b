package convert

import (
	"fmt"
	"strconv"
	"strings"
)

// gate has the settings of the plugins that check the resources of the cluster in Volcano's action
// enqueue (JobEnqueueable in pkg/scheduler/framework/session_plugins.go).
type gate struct {
	// known means that the configuration names actions. The field enqueue means that the action
	// enqueue is among them. Without this action, Volcano's scheduler admits every group at once.
	known, enqueue bool
	// factor is the argument of the plugin overcommit, or 0 if the plugin is off. The field queues
	// means that the plugin proportion or capacity is on. These two plugins check the limit of a
	// queue or, if the queue has no limit, the resources of the whole cluster.
	factor float64
	queues bool
}

// The factors of the plugin overcommit. Volcano replaces a factor below 1 with its default.
const (
	defaultFactor = 1.2
	maxFactor     = 1000
)

// atGate records the settings of a plugin that affect the admission of groups.
func (c *converter) atGate(p *plugin) {
	asked := !strings.EqualFold(p.Arguments["enableJobEnqueued"], "false")
	switch p.Name {
	case "proportion", "capacity":
		c.gate.queues = c.gate.queues || asked
	case "overcommit":
		factor := c.factor(p)
		if delete(p.Arguments, "enableJobEnqueued"); asked {
			c.gate.factor = factor
		}
	}
}

func (c *converter) factor(p *plugin) float64 {
	const argument = "overcommit-factor"
	text, told := p.Arguments[argument]
	delete(p.Arguments, argument)
	if !told {
		return defaultFactor
	}
	factor, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil || !(factor <= maxFactor):
		c.Unknown = append(c.Unknown, fmt.Sprintf("plugin %s: argument %s %.40q: want a number from 1 to %d", p.Name, argument, text, maxFactor))
		return defaultFactor
	case factor < 1:
		c.note("plugin %s: argument %s %s: it is less than 1, and Volcano uses %v instead", p.Name, argument, text, defaultFactor)
		return defaultFactor
	}
	c.quoted(p, argument, text, fmt.Sprint(defaultFactor))
	return factor
}

// admission returns the argument with which the plugin Berth admits groups as Volcano did. It
// returns nil if Berth's default has this effect, or if the configuration names no actions.
func (c *converter) admission() map[string]any {
	switch g := &c.gate; {
	case !g.known:
	case !g.enqueue:
		c.note("no action enqueue: groups are admitted regardless of free resources (admission.gate none of plugin Berth)")
		return map[string]any{"gate": "none"}
	case g.factor > 0:
		c.note("action enqueue: %s", letIn)
		c.note("plugin overcommit: groups are admitted up to %v times the nodes' resources (admission.overcommitFactor of plugin Berth)", g.factor)
		return map[string]any{"overcommitFactor": g.factor}
	case !g.queues:
		c.note("action enqueue: no plugin overcommit, proportion or capacity limits groups, so groups are admitted regardless of free resources (admission.gate none of plugin Berth)")
		return map[string]any{"gate": "none"}
	default:
		c.note("action enqueue: %s", letIn)
	}
	return nil
}

// letIn describes the rule by which Berth admits groups.
const letIn = "a group is admitted if the resources of its minResources are free, or could be freed by evicting pods of lower priority"
