package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Points has the plugins of one profile by extension point, in the order of their calls. The points
// are named as in a KubeSchedulerConfiguration.
type Points map[string][]string

// needed are the extension points that Berth keeps its promise with, and the plugins that each of
// them has to have.
var needed = []struct {
	point   string
	plugins []string
}{
	{"preEnqueue", []string{Name}}, {"preFilter", []string{Name}}, {"filter", []string{Name}}, {"postFilter", []string{Name}}, {"preScore", []string{Name, TiersName}},
	{"score", []string{Name, TiersName}}, {"reserve", []string{Name}}, {"permit", []string{Name}}, {"bind", []string{Name}},
}

// first is which plugins would do harm before Berth, by extension point.
var first = map[string]struct{ before, because string }{
	"bind":       {"DefaultBinder", "it binds without the decision"},
	"postFilter": {"DefaultPreemption", "it evicts while a node merely waits for a report"},
}

// Has reports whether the profile has the plugin at any extension point.
func (p Points) Has() bool {
	for _, plugins := range p {
		if slices.Contains(plugins, Name) {
			return true
		}
	}
	return false
}

// Check returns an error that describes what a profile with the plugin lacks, and what to write.
// Without one of its points, or with another plugin before it, the plugin would place pods without
// keeping its promises. Without Tiers, other plugins would outvote it and split pods over NUMA
// nodes.
func (p Points) Check(profile string) error {
	var wrong []string
	for _, n := range needed {
		for _, plugin := range n.plugins {
			if !slices.Contains(p[n.point], plugin) {
				wrong = append(wrong, fmt.Sprintf("%s lacks %s", n.point, plugin))
			}
		}
		at, rival := slices.Index(p[n.point], Name), slices.Index(p[n.point], first[n.point].before)
		if rival >= 0 && rival < at {
			wrong = append(wrong, fmt.Sprintf("%s has %s before %s: %s", n.point, first[n.point].before, Name, first[n.point].because))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	right, err := yaml.Marshal(map[string]any{"plugins": plugins()})
	if err != nil {
		return err
	}
	return fmt.Errorf("KubeSchedulerConfiguration: profile %q: %s; want\n%s", profile, strings.Join(wrong, "; "), right)
}

// plugins are what a profile must have about its plugins for Berth to be in place.
func plugins() map[string]any {
	berth := []any{map[string]any{"name": Name}}
	scored := []any{map[string]any{"name": Name, "weight": Weight}, map[string]any{"name": TiersName, "weight": TiersWeight}}
	return map[string]any{
		"multiPoint": map[string]any{"enabled": scored},
		"bind":       map[string]any{"enabled": berth},
		"postFilter": map[string]any{"enabled": berth},
	}
}
