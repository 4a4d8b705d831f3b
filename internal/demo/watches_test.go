package demo

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/hollow"
)

// TestWatches checks the number of inotify instances that clusters need, and the advice if the user
// may not have as many.
func TestWatches(t *testing.T) {
	nodes, err := Nodes(AllNodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		nodes  []hollow.Spec
		agents bool
		want   int
	}{
		{nil, true, 6}, {nodes, false, 19}, {nodes, true, 32},
		{[]hollow.Spec{{NRI: true, Devices: "x"}}, true, 10}, {[]hollow.Spec{{NRI: true, Devices: "x"}}, false, 8},
	} {
		if got := watchesFor(c.nodes, c.agents); got != c.want {
			t.Errorf("%d nodes, agents %v: %d, want %d", len(c.nodes), c.agents, got, c.want)
		}
	}
	if err := checkWatches(nodes, true); err != nil && !strings.Contains(err.Error(), "fs.inotify.max_user_instances") { // other programs may use them
		t.Error(err)
	}
	const want = "a cluster of 13 nodes needs 32 inotify instances, but this user can create only 7 more (the limit is "
	if got := fewWatches(13, 32, 7).Error(); !strings.HasPrefix(got, want) || !strings.Contains(got, "sysctl fs.inotify.max_user_instances=") {
		t.Errorf("%s: want %q, and what to do", got, want)
	}
}
