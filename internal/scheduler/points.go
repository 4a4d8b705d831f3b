package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/scheduler/steer"
)

// Points lists the plugins of one profile by extension point, in the order in which the framework
// calls them. The points are named as in a KubeSchedulerConfiguration.
type Points map[string][]string

// needed lists the extension points that Berth requires, with the required plugins of each.
var needed = []struct {
	point   string
	plugins []string
}{
	{"preEnqueue", []string{Name}}, {"preFilter", []string{Name}}, {"filter", []string{Name}}, {"postFilter", []string{Name}}, {"preScore", []string{Name, TiersName}},
	{"score", []string{Name, TiersName}}, {"reserve", []string{Name}}, {"permit", []string{Name}}, {"bind", []string{Name}},
}

// neededForClaims lists the extension points at which ClaimsName must replace DynamicResources if
// the profile has ClaimsName.
var neededForClaims = []string{"preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"}

// inPlaceOf is the plugin that ClaimsName replaces.
const inPlaceOf = "DynamicResources"

// first has, by extension point, a plugin that must not come before Berth, and the reason.
var first = map[string]struct{ before, because string }{
	"bind":       {"DefaultBinder", "DefaultBinder would bind pods without Berth's decision"},
	"postFilter": {"DefaultPreemption", "DefaultPreemption would evict pods even if a node only waits for a report"},
}

// Has reports whether the profile has the plugin Berth at any extension point.
func (p Points) Has() bool {
	for _, plugins := range p {
		if slices.Contains(plugins, Name) {
			return true
		}
	}
	return false
}

// Check returns an error that describes what is wrong in a profile with the plugin, and the
// expected configuration. If an extension point is missing or the order is wrong, the plugin cannot
// keep its promises about the pods that it places. Without Tiers, the scores of other plugins would
// outweigh the scores of this plugin, and pods would be split over NUMA nodes.
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
	wrong = append(wrong, p.checkClaims()...)
	if len(wrong) == 0 {
		return nil
	}
	right, err := yaml.Marshal(map[string]any{"plugins": plugins()})
	if err != nil {
		return err
	}
	return fmt.Errorf("KubeSchedulerConfiguration: profile %q: %s; want\n%s", profile, strings.Join(wrong, "; "), right)
}

// checkClaims describes wrong settings of ClaimsName. It returns nothing if the profile does not
// have ClaimsName.
func (p Points) checkClaims() (wrong []string) {
	at := func(point, plugin string) int { return slices.Index(p[point], plugin) }
	if !slices.ContainsFunc(neededForClaims, func(point string) bool { return at(point, ClaimsName) >= 0 }) {
		return nil
	}
	for _, point := range neededForClaims {
		if at(point, ClaimsName) < 0 {
			wrong = append(wrong, point+" lacks "+ClaimsName)
		}
		if at(point, inPlaceOf) >= 0 {
			wrong = append(wrong, fmt.Sprintf("%s has %s in addition to %s, which replaces it", point, inPlaceOf, ClaimsName))
		}
	}
	if at("reserve", ClaimsName) < at("reserve", Name) {
		wrong = append(wrong, fmt.Sprintf("reserve has %s before %s: %s compares devices with the decision of %s, so it must come later", ClaimsName, Name, ClaimsName, Name))
	}
	if evicts := at("postFilter", "DefaultPreemption"); evicts >= 0 && evicts < at("postFilter", ClaimsName) {
		wrong = append(wrong, "postFilter has DefaultPreemption before "+ClaimsName+": DefaultPreemption would evict pods even if the deallocation of a claim is enough")
	}
	return wrong
}

// plugins returns plugin settings with which a profile passes Check.
func plugins() map[string]any {
	berth, claims := map[string]any{"name": Name}, map[string]any{"name": ClaimsName}
	scored := []any{
		map[string]any{"name": Name, "weight": Weight}, map[string]any{"name": TiersName, "weight": TiersWeight},
		map[string]any{"name": ClaimsName, "weight": steer.Weight},
	}
	return map[string]any{
		"multiPoint": map[string]any{"enabled": scored, "disabled": []any{map[string]any{"name": inPlaceOf}}},
		"bind":       map[string]any{"enabled": []any{berth}},
		"postFilter": map[string]any{"enabled": []any{berth, claims}},
	}
}
