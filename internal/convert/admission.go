package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// gate has the settings of the plugins that check the resources of the cluster in Volcano's action
// enqueue (JobEnqueueable in pkg/scheduler/framework/session_plugins.go).
type gate struct {
	// known means that the configuration names actions. The field enqueue means that the action
	// enqueue is among them. Without this action, Volcano's scheduler admits every group at once.
	known, enqueue bool
	// decides is the first plugin that decides about the admission, or "". Other plugins decide
	// only if they are in the same tier, and one plugin is enough to reject a group.
	decides string
	tier    int
	// factor is the argument of the plugin overcommit, or 0 if the plugin does not decide. The
	// field queues is the plugin proportion or capacity if it decides, or "". These two plugins
	// check the limit of a queue or, if the queue has no limit, the resources of the whole cluster.
	factor float64
	queues string
}

const overcommitFactor = "overcommit-factor"

// The factors of the plugin overcommit. Volcano replaces a factor below 1 with its default.
const (
	defaultFactor = 1.2
	maxFactor     = 1000
)

// atGate records the settings of a plugin that affect the admission of groups.
func (c *converter) atGate(p *plugin) {
	if !slices.Contains([]string{"overcommit", "proportion", "capacity", "resourcequota"}, p.Name) {
		return
	}
	factor := 0.0
	if p.Name == "overcommit" {
		factor = c.factor(p)
	}
	switch g := &c.gate; {
	case c.off(p.Name, "enableJobEnqueued"):
		c.note("plugin %s: enableJobEnqueued false: it does not limit groups", p.Name)
		return
	case g.decides == "":
		g.decides, g.tier = p.Name, p.Tier
	case g.tier < p.Tier:
		c.note("plugin %s: it does not limit groups, as in Volcano, because %s is in an earlier tier and decides", p.Name, g.decides)
		return
	}
	switch p.Name {
	case "overcommit":
		c.gate.factor = factor
	case "proportion", "capacity":
		c.gate.queues = p.Name
	}
}

func (c *converter) factor(p *plugin) float64 {
	const argument = overcommitFactor
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
	letIn := "action enqueue: a group is admitted if the resources of its minResources are free"
	if c.evicts {
		letIn += ", or could be freed by evicting pods of lower priority"
	}
	switch g := &c.gate; {
	case !g.known:
	case !g.enqueue:
		c.note("no action enqueue: groups are admitted regardless of free resources (admission.gate none of plugin Berth)")
		return map[string]any{"gate": "none"}
	case g.factor > 0:
		c.note("%s", letIn)
		c.note("plugin overcommit: groups are admitted up to %v times the nodes' resources (admission.overcommitFactor of plugin Berth)", g.factor)
		if g.queues != "" && g.factor > 1 {
			c.note("plugin %s: it limited the groups of each queue to the resources of the nodes; Berth has no queues, and applies only the factor to all groups", g.queues)
		}
		return map[string]any{"overcommitFactor": g.factor}
	case g.queues == "":
		c.note("action enqueue: no plugin overcommit, proportion or capacity limits groups, so groups are admitted regardless of free resources (admission.gate none of plugin Berth)")
		return map[string]any{"gate": "none"}
	default:
		c.note("%s", letIn)
	}
	return nil
}
