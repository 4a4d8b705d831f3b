package web

import (
	"reflect"
	"testing"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
)

// TestClaimsOfOthersAreHidden: a viewer of one namespace sees which devices are in use, but not by
// which claims of other namespaces.
func TestClaimsOfOthersAreHidden(t *testing.T) {
	taken := func() []string { return []string{"gpu.example.com/a by mine/c", "gpu.example.com/b by theirs/c"} }
	for name, c := range map[string]struct {
		viewer Viewer
		want   []string
		claims int
	}{
		"one namespace": {onlyNamespace("mine"), []string{"gpu.example.com/a by mine/c", "gpu.example.com/b by a claim of another namespace"}, 1},
		"everything":    {everything{}, taken(), 2},
	} {
		all := []query.Claimed{{Nodes: []query.ClaimOnNode{{NUMANodes: []query.ClaimOnNUMANode{{Taken: taken()}}}}}}
		hideClaims(all, c.viewer)
		if got := all[0].Nodes[0].NUMANodes[0].Taken; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
		d := &survey.Driven{Devices: []survey.DriverDevices{{Taken: taken()}}, Claims: []survey.ClaimOfPod{{Namespace: "mine"}, {Namespace: "theirs"}}}
		hideDriven(d, c.viewer)
		if !reflect.DeepEqual(d.Devices[0].Taken, c.want) || len(d.Claims) != c.claims {
			t.Errorf("%s: %+v", name, d)
		}
		f := &query.Fitting{Namespace: "theirs", Claims: all}
		if shownFit(f, c.viewer); (f.Claims == nil) != (c.claims == 1) {
			t.Errorf("%s: claims of a namespace that it does not see: %v", name, f.Claims)
		}
	}
	hideDriven(nil, everything{})
}
