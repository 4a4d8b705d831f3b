package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/suggest"
)

// Result is the converted configuration, with notes.
type Result struct {
	// Config is a KubeSchedulerConfiguration, as YAML.
	Config []byte
	// Notes explain to the user which settings have no exact counterpart, and what replaces them.
	Notes []string
	// Unknown has texts about settings that Berth does not know. Config omits these settings.
	Unknown []string
}

// Volcano converts a configuration of Volcano's scheduler. It returns an error if the text does not
// have exactly one such configuration.
func Volcano(text []byte) (Result, error) {
	s, err := read(text)
	if err != nil {
		return Result{}, err
	}
	return s.convert()
}

// convert converts every setting that has a counterpart, and adds notes about the others.
func (s *settings) convert() (Result, error) {
	c := converter{weights: map[string]int64{}, listed: map[string][]string{}, gate: gate{known: len(s.Actions) > 0, enqueue: slices.Contains(s.Actions, "enqueue")}}
	c.Notes, c.Unknown = slices.Clone(s.Notes), slices.Clone(s.Unknown)
	c.parameters(s.Parameters)
	for i := range s.Configurations {
		c.configured(&s.Configurations[i])
	}
	for _, action := range s.Actions {
		c.explain("action ", action, actions)
		c.evicts = c.evicts || slices.Contains(evicting, action)
	}
	c.order(s.Actions)
	if !c.evicts {
		c.note("no action %s: no pods are evicted here either (evictsNobody of plugin Berth, and no other plugin at postFilter)", strings.Join(evicting, " or "))
	}
	if len(s.Actions) == 0 && len(s.Plugins) > 0 {
		c.note("no actions: Volcano refuses a configuration without them; here groups are admitted as with the action enqueue")
	}
	c.entries = s.Plugins
	c.conflicts()
	for i := range s.Plugins {
		p := &s.Plugins[i]
		if slices.ContainsFunc(s.Plugins[i+1:], func(later plugin) bool { return later.Name == p.Name }) {
			c.note("plugin %.80s: it is named again, and the later arguments count, as in Volcano%s", p.Name, notUsed(sortedKeys(p.Arguments)))
			continue
		}
		c.plugin(p)
	}
	c.absent()
	config, err := yaml.Marshal(c.configuration(c.admission()))
	c.Config = config
	return c.Result, err
}

// conflicts finds a tier that Volcano refuses (UnmarshalSchedulerConf in pkg/scheduler/util.go).
func (c *converter) conflicts() {
	for i := range c.entries {
		p := &c.entries[i]
		if p.Name == "drf" && p.Switches["enableHierarchy"] &&
			slices.ContainsFunc(c.entries, func(other plugin) bool { return other.Name == "proportion" && other.Tier == p.Tier }) {
			c.Unknown = append(c.Unknown, "plugin drf: enableHierarchy true: Volcano refuses it in one tier with proportion: want drf without it, or no proportion")
		}
	}
}

// absent adds notes about the work of plugins that the configuration lacks.
func (c *converter) absent() {
	for _, a := range []struct{ plugin, point, what string }{
		{"nodeorder", "score", "default scores"},
		{"predicates", "filter", "filters"},
	} {
		if len(c.entries) > 0 && !slices.ContainsFunc(c.entries, func(p plugin) bool { return p.Name == a.plugin }) {
			c.note("no plugin %s: kube-scheduler's %s apply nevertheless; to switch one off, list it below plugins.%s.disabled", a.plugin, a.what, a.point)
		}
	}
}

// off reports whether every entry of a plugin has a switch that is off. One entry in which it is on
// is enough for Volcano.
func (c *converter) off(name, key string) bool {
	return !slices.ContainsFunc(c.entries, func(p plugin) bool {
		on, told := p.Switches[key]
		return p.Name == name && (on || !told)
	})
}

// silent adds a note that a plugin does not score nodes for a reason, and removes the plugin's
// known arguments.
func (c *converter) silent(p *plugin, reason string) {
	var unused []string
	for _, key := range sortedKeys(p.Arguments) {
		if slices.Contains(argumentsOf(p.Name), key) || strings.HasPrefix(key, binpackResources+".") {
			unused = append(unused, key)
			delete(p.Arguments, key)
		}
	}
	c.note("plugin %s: %s: it does not score nodes, as in Volcano%s", p.Name, reason, notUsed(unused))
}

// notUsed returns the end of a note about arguments that are not used, or "".
func notUsed(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("; not used: %.200s", strings.Join(keys, ", "))
}

// parameters adds notes on how to replace the other parameters of an add-on.
func (c *converter) parameters(keys []string) {
	for _, key := range keys {
		why, known := ownParameters[key]
		near := suggest.DidYouMean(key, slices.Concat(inner, confKeys))
		switch {
		case known:
			c.note("%s: %s", key, why)
		case near != "":
			c.Unknown = append(c.Unknown, fmt.Sprintf("key %.80q: unknown%s", key, near))
		default:
			c.note("%.80s: it is next to the scheduler's configuration, not one of its keys: it belongs to the installer of Volcano", key)
		}
	}
}

// configured adds a note on how to replace an entry of the key configurations.
func (c *converter) configured(p *plugin) {
	why, ok := configurations[p.Name]
	if !ok {
		why = "Berth ignores arguments of actions and uses kube-scheduler's settings"
	}
	c.note("configurations: %.80s: %s%s", p.Name, why, notUsed(sortedKeys(p.Arguments)))
}

// order adds notes about the actions that Volcano runs before the action allocate.
func (c *converter) order(actions []string) {
	for _, action := range actions {
		switch action {
		case "allocate":
			return
		case "enqueue":
		default:
			c.note("action %s stands before allocate: the order has no counterpart, because Berth first tries to place a pod without evictions", action)
		}
	}
}

type converter struct {
	Result
	// entries are the plugins of all tiers. A plugin can have several entries.
	entries []plugin
	// weights has the weights of plugins in the new profile, by plugin name.
	weights map[string]int64
	// strategy is the scoring strategy of NodeResourcesFit, or "" for the default. The field
	// resources has the weight of each resource in the strategy.
	strategy  string
	resources map[string]int64
	// listed has the resources in an argument that lists resources, by argument.
	listed map[string][]string
	// evicts means that an action evicts by priority.
	evicts bool
	// keep is the number of CPUs that are kept for one device, by resource.
	keep map[string]int64
	gate gate
}

func (c *converter) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// explain looks up a setting in the table known, and adds the text that it finds to the notes. If
// the table lacks the setting, explain adds the setting to Unknown.
func (c *converter) explain(what, name string, known map[string]string) {
	why, ok := known[name]
	if near := suggest.Nearest(name, sortedKeys(known)); !ok && what == "plugin " && (near == "" || strings.HasPrefix(name, near)) {
		why, ok = inFamily(name)
	}
	switch {
	case !ok:
		c.Unknown = append(c.Unknown, fmt.Sprintf("%s%.80q: unknown%s; if it is your own, rewrite it as a plugin for kube-scheduler",
			what, name, suggest.DidYouMean(name, sortedKeys(known))))
	case why != "":
		c.note("%s%s: %s", what, name, why)
	}
}

func (c *converter) plugin(p *plugin) {
	c.explain("plugin ", p.Name, plugins)
	c.atGate(p)
	switch p.Name {
	case "numa-aware":
		if c.off(p.Name, nodeOrder) {
			c.note("plugin numa-aware: %s false: Berth scores every node, so the weight becomes 1%s", nodeOrder, notUsed(sortedKeys(p.Arguments)))
			delete(p.Arguments, "weight")
		}
		c.weigh(p, "weight", "Berth", "1")
		if weight, ok := c.weights["Berth"]; ok && weight == 0 {
			c.note("plugin numa-aware: argument weight 0: Berth scores every node, so the weight becomes 1")
		}
	case "gang":
		if c.evicts && !c.off(p.Name, "enablePreemptable") {
			c.note("plugin gang: %s", evictsWhole)
		}
	case "nodeorder":
		c.nodeorder(p)
	case "binpack":
		c.binpack(p)
	case "predicates":
		c.predicates(p)
	}
	for _, key := range sortedKeys(p.Switches) {
		evicts := c.evicts || key != "enablePreemptable" && key != "enableJobStarving"
		if why := switchedOff[p.Name][key]; why != "" && evicts && c.off(p.Name, key) {
			c.note("plugin %s: %s false: %s", p.Name, key, why)
		}
	}
	c.remaining(p)
}

// remaining handles the arguments of a plugin that the converter has not translated.
func (c *converter) remaining(p *plugin) {
	known := argumentsOf(p.Name)
	for _, key := range sortedKeys(p.Arguments) {
		value, counterpart := p.Arguments[key], counterparts[p.Name+" "+key]
		list, resource := resourceOf(key)
		near := suggest.DidYouMean(key, known)
		if near == "" && 0 < len(known) && len(known) <= 4 {
			near = ": want " + strings.Join(known, " or ")
		}
		wrong := ""
		switch {
		case slices.Contains(switches, key):
			wrong = "Volcano does not read it inside arguments: want it next to arguments"
		case counterpart != "":
			c.note("plugin %s: argument %s %.40s: use %s", p.Name, key, value, counterpart)
		case list == binpackResources && slices.Contains(known, "binpack."+resource):
			wrong = "Volcano ignores it: want binpack." + resource
		case slices.Contains(known, list) && !slices.Contains(c.listed[list], resource):
			wrong = fmt.Sprintf("Volcano ignores it: want %.80s in %s", resource, list)
		case len(known) == 0, slices.Contains(known, key), slices.Contains(known, list) && strings.HasSuffix(key, ".memory"):
			c.note("plugin %s: argument %s %.40s: it has no counterpart", p.Name, key, value)
		default:
			wrong = "Volcano has no such argument" + near
		}
		if wrong != "" {
			c.Unknown = append(c.Unknown, fmt.Sprintf("plugin %s: argument %.80s %.40s: %s", p.Name, key, value, wrong))
		}
	}
}

// resourceOf splits an argument such as binpack.resources.nvidia.com/gpu into the argument that
// lists the resources and the resource. It returns "" for another argument.
func resourceOf(argument string) (list, resource string) {
	if resource, ok := strings.CutPrefix(argument, binpackResources+"."); ok {
		return binpackResources, resource
	}
	if resource, ok := strings.CutPrefix(argument, proportionalResources+"."); ok {
		for _, amount := range []string{".cpu", ".memory"} {
			if name, ok := strings.CutSuffix(resource, amount); ok {
				return proportionalResources, name
			}
		}
	}
	return "", ""
}

// list removes an argument with names of resources and returns the names. Volcano splits a text at
// its commas, and ignores any other value.
func (c *converter) list(p *plugin, argument string) []string {
	text, told := p.Arguments[argument]
	delete(p.Arguments, argument)
	if told && !p.Quoted[argument] {
		c.Unknown = append(c.Unknown, fmt.Sprintf("plugin %s: argument %s %.80s: Volcano reads only a text, and ignores it: want names of resources separated by commas", p.Name, argument, text))
		return nil
	}
	for _, name := range itemsBetweenCommas(text) {
		switch {
		case name == "" || slices.Contains(c.listed[argument], name):
		case len(validation.IsQualifiedName(name)) > 0:
			c.Unknown = append(c.Unknown, fmt.Sprintf("plugin %s: argument %s %.80q: want names of resources separated by commas", p.Name, argument, name))
		default:
			c.listed[argument] = append(c.listed[argument], name)
		}
	}
	return c.listed[argument]
}

// weigh removes a weight from the arguments, and gives this weight to a plugin of the new profile.
func (c *converter) weigh(p *plugin, argument, plugin, standard string) {
	weight, ok := c.take(p, argument, standard)
	if ok {
		c.weights[plugin] = weight
	}
}

// take removes an argument from the plugin's arguments and returns its number. If the plugin does
// not have the argument, take returns the number in the text standard. It returns false for an
// invalid number.
func (c *converter) take(p *plugin, argument, standard string) (int64, bool) {
	text, told := p.Arguments[argument]
	if !told {
		text = standard
	}
	delete(p.Arguments, argument)
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n > maxWeight {
		c.Unknown = append(c.Unknown, fmt.Sprintf("plugin %s: argument %s %.40q: want a whole number from 0 to %d", p.Name, argument, text, maxWeight))
		return 0, false
	}
	c.quoted(p, argument, text, standard)
	return n, true
}

// quoted adds a note about a number in quotes. The converter uses the number, because products
// document this form and old releases of Volcano read it. Volcano since 1.6 uses its default
// instead (GetInt and GetFloat64 in pkg/scheduler/framework/arguments.go).
func (c *converter) quoted(p *plugin, argument, text, standard string) {
	if p.Quoted[argument] {
		c.note("plugin %s: argument %s %.40q: it counts here, although Volcano since 1.6 ignores numbers in quotes and uses %s", p.Name, argument, text, standard)
	}
}

// fit is the plugin of kube-scheduler that scores nodes by their free resources.
const fit = "NodeResourcesFit"

// maxWeight is the maximum weight of a plugin. It is so small that no plugin outweighs BerthTiers.
const maxWeight = 1000

// nodeOrder is the switch for the scores of a plugin (NodeOrderFn in
// pkg/scheduler/framework/session_plugins.go).
const nodeOrder = "enableNodeOrder"

func (c *converter) nodeorder(p *plugin) {
	if c.off(p.Name, nodeOrder) {
		c.silent(p, nodeOrder+" false")
		for _, n := range nodeorder {
			c.weights[n.plugin] = 0
		}
		c.noStrategy()
		return
	}
	for _, n := range nodeorder {
		c.weigh(p, n.argument, n.plugin, n.standard)
	}
	readable := true
	for _, s := range strategies {
		standard := "0"
		if s.strategy == "LeastAllocated" {
			standard = "1"
		}
		switch weight, ok := c.take(p, s.argument, standard); {
		case !ok:
			readable = false
		case weight == 0:
		case c.strategy == "":
			c.strategy, c.weights[fit] = s.strategy, weight
		default:
			c.note("plugin nodeorder: argument %s %d: it is not used: NodeResourcesFit has only one strategy, and an earlier argument selects %s", s.argument, weight, c.strategy)
		}
	}
	if c.strategy == "" && readable {
		c.weights[fit] = 0 // otherwise it would score with a weight of 1
	}
}

// binpack translates the plugin binpack to NodeResourcesFit with the strategy MostAllocated.
func (c *converter) binpack(p *plugin) {
	if c.off(p.Name, nodeOrder) {
		c.silent(p, nodeOrder+" false")
		c.noStrategy()
		return
	}
	weight, readable := c.take(p, "binpack.weight", "1")
	if readable && weight == 0 {
		c.silent(p, "argument binpack.weight 0")
		c.noStrategy()
		return
	}
	resources := map[string]int64{}
	for _, name := range []string{"cpu", "memory"} {
		c.resource(p, "binpack."+name, name, resources)
	}
	for _, name := range c.list(p, binpackResources) {
		if name != "cpu" && name != "memory" { // which have arguments of their own
			c.resource(p, binpackResources+"."+name, name, resources)
		}
	}
	if len(resources) > 0 && !slices.ContainsFunc(sortedKeys(resources), func(name string) bool { return resources[name] > 0 }) {
		c.silent(p, "the weight of every resource is 0")
		c.noStrategy()
		return
	}
	switch c.strategy {
	case "LeastAllocated":
		c.note("plugin binpack: it fills nodes, leastrequested.weight of nodeorder empties them; only one of them is possible, and binpack is used")
	case "MostAllocated":
		c.note("plugin binpack: mostrequested.weight %d of nodeorder fills nodes as well: the weight of binpack is used", c.weights[fit])
	}
	if c.strategy == "" {
		delete(c.weights, fit)
	}
	if c.strategy, c.resources = "MostAllocated", resources; readable {
		c.weights[fit] = weight
	}
}

// noStrategy switches off NodeResourcesFit's score, unless the plugin nodeorder uses it.
func (c *converter) noStrategy() {
	if c.strategy == "" {
		c.weights[fit] = 0
	}
}

// maxResource is the largest weight of a resource that NodeResourcesFit accepts.
const maxResource = 100

// resource removes the weight of a resource from the arguments, and adds it to a map of weights.
func (c *converter) resource(p *plugin, argument, name string, into map[string]int64) {
	weight, ok := c.take(p, argument, "1")
	if !ok {
		return
	}
	if weight > maxResource {
		c.note("plugin binpack: argument %s %d: kube-scheduler takes at most %d, so that is used", argument, weight, maxResource)
	}
	into[name] = min(weight, maxResource)
}

// predicates handles the switches of the plugin predicates, and removes them from the arguments.
func (c *converter) predicates(p *plugin) {
	for i := range predicates {
		known := &predicates[i]
		on, told := c.takeSwitch(p, known.argument)
		switch {
		case !told:
		case on && known.on != "":
			c.note("plugin predicates: argument %s true: %s", known.argument, known.on)
		case !on && known.plugin != "":
			c.note("plugin predicates: argument %s false: kube-scheduler's %s does this nevertheless; to switch it off, list it below plugins.filter.disabled", known.argument, known.plugin)
		}
	}
	why := "without " + proportional + " true"
	if on, _ := c.takeSwitch(p, proportional); on {
		if !c.off(p.Name, "enablePredicate") {
			c.proportional(p)
			return
		}
		why = "with enablePredicate false"
	}
	for _, key := range sortedKeys(p.Arguments) {
		if key == proportionalResources || strings.HasPrefix(key, proportionalResources+".") {
			c.note("plugin predicates: argument %.80s %.40s: %s it does nothing, and no CPUs are kept", key, p.Arguments[key], why)
			delete(p.Arguments, key)
		}
	}
}

func (c *converter) takeSwitch(p *plugin, argument string) (on, told bool) {
	value, told := p.Arguments[argument]
	if !told {
		return false, false
	}
	delete(p.Arguments, argument)
	on, err := strconv.ParseBool(value)
	if err != nil {
		c.Unknown = append(c.Unknown, fmt.Sprintf("plugin %s: argument %s %.40q: want true or false", p.Name, argument, value))
	}
	return on, err == nil
}

// proportional converts the resources of the plugin predicates to numbers of CPUs that Berth keeps
// for devices. Volcano also keeps memory, and ignores NUMA nodes.
func (c *converter) proportional(p *plugin) {
	c.keep = map[string]int64{}
	for _, resource := range c.list(p, proportionalResources) {
		argument := proportionalResources + "." + resource + ".cpu"
		_, told := p.Arguments[argument]
		switch cpus, ok := c.take(p, argument, "1"); {
		case !ok:
		case cpus == 0:
			c.note("plugin predicates: argument %s 0: no CPUs are kept for the resource", argument)
		case !told:
			c.note("plugin predicates: resource %.80s: without %s it is 1, as in Volcano", resource, argument)
			c.keep[resource] = cpus
		default:
			c.keep[resource] = cpus
		}
	}
	if len(c.keep) == 0 {
		c.note("plugin predicates: argument %s true: it keeps no CPUs, because %s names no resource with CPUs", proportional, proportionalResources)
		return
	}
	c.note("plugin predicates: argument %s true: it becomes keep: cpusNearDevices with cpusPerDevice, which keeps CPUs on each NUMA node, for every healthy device", proportional)
}

// configuration returns the configuration for berth-scheduler. The argument admission has the
// settings for the admission of groups.
func (c *converter) configuration(admission map[string]any) map[string]any {
	enabled := []any{map[string]any{"name": "Berth", "weight": max(1, c.weights["Berth"])}}
	enabled = append(enabled, map[string]any{"name": "BerthTiers", "weight": tiersWeight})
	var disabled []any
	for _, name := range sortedKeys(c.weights) {
		switch weight := c.weights[name]; {
		case name == "Berth":
		case weight == 0:
			disabled = append(disabled, map[string]any{"name": name})
		default:
			enabled = append(enabled, map[string]any{"name": name, "weight": weight})
		}
	}
	berth := []any{map[string]any{"name": "Berth"}}
	postFilter, args := map[string]any{"enabled": berth}, map[string]any{"scoring": map[string]any{"formula": "volcano"}}
	if len(c.keep) > 0 {
		args["keep"], args["cpusPerDevice"] = "cpusNearDevices", c.keep
	}
	if admission != nil {
		args["admission"] = admission
	}
	if !c.evicts {
		postFilter["disabled"], args["evictsNobody"] = []any{map[string]any{"name": "*"}}, true
	}
	plugins := map[string]any{
		"queueSort":  map[string]any{"enabled": []any{map[string]any{"name": "BerthSort"}}, "disabled": []any{map[string]any{"name": "*"}}},
		"multiPoint": map[string]any{"enabled": enabled},
		"bind":       map[string]any{"enabled": berth},
		"postFilter": postFilter,
	}
	if len(disabled) > 0 {
		plugins["score"] = map[string]any{"disabled": disabled}
	}
	config := []any{map[string]any{"name": "Berth", "args": args}}
	if c.strategy != "" {
		config = append(config, map[string]any{"name": fit, "args": c.fitArgs()})
	}
	return map[string]any{
		"apiVersion":     "kubescheduler.config.k8s.io/v1",
		"kind":           "KubeSchedulerConfiguration",
		"leaderElection": map[string]any{"leaderElect": true, "resourceName": "berth-scheduler", "resourceNamespace": "berth-system"},
		"profiles":       []any{map[string]any{"schedulerName": "volcano", "plugins": plugins, "pluginConfig": config}},
	}
}

// tiersWeight is the weight of BerthTiers in every profile. In a profile with Volcano's formula,
// BerthTiers gives every node the same score.
const tiersWeight = 1_000_000

// fitArgs returns the arguments of NodeResourcesFit, whose weights are from 1 to maxResource.
func (c *converter) fitArgs() map[string]any {
	resources := []any{}
	for _, name := range sortedKeys(c.resources) {
		if weight := c.resources[name]; weight > 0 {
			resources = append(resources, map[string]any{"name": name, "weight": weight})
		}
	}
	if len(resources) == 0 {
		resources = []any{map[string]any{"name": "cpu", "weight": 1}, map[string]any{"name": "memory", "weight": 1}}
	}
	return map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs",
		"scoringStrategy": map[string]any{"type": c.strategy, "resources": resources},
	}
}
