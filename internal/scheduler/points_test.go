package scheduler

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// complete returns the points of the configuration that this package writes.
func complete() Points {
	p := Points{"preEnqueue": {"SchedulingGates", Name}, "permit": {Name}, "preFilter": {"NodeResourcesFit", Name}, "filter": {"NodeName", Name}, "preScore": {Name, TiersName}, "score": {"ImageLocality", Name, TiersName},
		"reserve": {"VolumeBinding", Name}, "bind": {Name, "DefaultBinder"}, "postFilter": {Name, "DefaultPreemption"}}
	return p
}

func TestPoints(t *testing.T) {
	if err := complete().Check("x"); err != nil {
		t.Errorf("complete: %v", err)
	}
	for what, tc := range map[string]struct {
		spoil func(Points)
		want  string
	}{
		"only multiPoint": {func(p Points) { p["bind"] = []string{"DefaultBinder", Name} }, "bind has DefaultBinder before Berth: DefaultBinder would bind pods without Berth's decision"},
		"no bind":         {func(p Points) { p["bind"] = []string{"DefaultBinder"} }, "bind lacks Berth"},
		"no tiers": {func(p Points) {
			p["preScore"], p["score"] = []string{Name}, []string{Name}
		}, "preScore lacks BerthTiers; score lacks BerthTiers; want"},
		"tiers at one point": {func(p Points) { p["preScore"] = []string{Name} }, `"main": preScore lacks BerthTiers; want`},
		"only bind": {func(p Points) {
			clear(p)
			p["bind"] = []string{Name}
		}, "preEnqueue lacks Berth; preFilter lacks Berth; filter lacks Berth; postFilter lacks Berth; preScore lacks Berth; preScore lacks BerthTiers; score lacks Berth; score lacks BerthTiers; reserve lacks Berth; permit lacks Berth; want"},
		"preemption first": {func(p Points) { slices.Reverse(p["postFilter"]) }, "postFilter has DefaultPreemption before Berth"},
	} {
		p := complete()
		tc.spoil(p)
		err := p.Check("main")
		if err == nil || !strings.Contains(err.Error(), `profile "main": `) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", what, err, tc.want)
			continue
		}
		var written struct{ Plugins map[string]any }
		_, text, _ := strings.Cut(err.Error(), "want\n")
		if err := yaml.UnmarshalStrict([]byte(text), &written); err != nil || written.Plugins["bind"] == nil {
			t.Errorf("%s: what to write is %q, %v", what, text, err)
		}
	}
}

// TestPointsOfClaims: the plugin that replaces DynamicResources is at all its points, and
// DynamicResources is at none.
func TestPointsOfClaims(t *testing.T) {
	whole := func() Points {
		p := complete()
		for _, point := range neededForClaims {
			p[point] = append(p[point], ClaimsName)
		}
		p["postFilter"] = []string{Name, ClaimsName, "DefaultPreemption"}
		return p
	}
	if err := whole().Check("x"); err != nil {
		t.Errorf("complete: %v", err)
	}
	for want, spoil := range map[string]func(Points){
		"preBind lacks BerthClaims":                              func(p Points) { delete(p, "preBind") },
		"filter has DynamicResources in addition to BerthClaims": func(p Points) { p["filter"] = append(p["filter"], "DynamicResources") },
		"reserve has BerthClaims before Berth":                   func(p Points) { slices.Reverse(p["reserve"]) },
		"DefaultPreemption before BerthClaims":                   func(p Points) { p["postFilter"] = []string{Name, "DefaultPreemption", ClaimsName} },
	} {
		p := whole()
		spoil(p)
		if err := p.Check("x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPointsOfOthers: a profile without the plugin is not Berth's.
func TestPointsOfOthers(t *testing.T) {
	if (Points{"bind": {"DefaultBinder"}}).Has() {
		t.Error("the plugin is found where it is not")
	}
	if !(Points{"bind": {"DefaultBinder", Name}}).Has() {
		t.Error("the plugin is not found")
	}
}
