package convert

import (
	"strings"
	"testing"
)

// TestGroupsAreLetInAsVolcanoDid: there is no gate without the action enqueue, or if no plugin
// takes part in it. The factor of overcommit is used.
func TestGroupsAreLetInAsVolcanoDid(t *testing.T) {
	for name, c := range map[string]struct{ actions, plugins, args, note, unknown string }{
		"no enqueue":         {"allocate, preempt", "[{name: overcommit}]", "gate: none", "no action enqueue", ""},
		"the default":        {"enqueue, allocate", "[{name: overcommit}, {name: proportion}]", "overcommitFactor: 1.2", "plugin proportion: it limited the groups of each queue to the resources of the nodes", ""},
		"the same, turned":   {"enqueue, allocate", "[{name: capacity}, {name: overcommit, arguments: {overcommit-factor: 2}}]", "overcommitFactor: 2", "plugin capacity: it limited the groups", ""},
		"queues are off":     {"enqueue, allocate", "[{name: overcommit}, {name: proportion, enableJobEnqueued: false}]", "overcommitFactor: 1.2", "plugin proportion: enableJobEnqueued false: it does not limit groups", ""},
		"an earlier tier":    {"enqueue, allocate", "[{name: overcommit}]\n- plugins: [{name: proportion}]", "overcommitFactor: 1.2", "plugin proportion: it does not limit groups, as in Volcano, because overcommit is in an earlier tier", ""},
		"a later tier":       {"enqueue, allocate", "[{name: proportion}]\n- plugins: [{name: overcommit}]", "", "plugin overcommit: it does not limit groups, as in Volcano, because proportion is in an earlier tier", ""},
		"only quotas decide": {"enqueue, allocate", "[{name: resourcequota}]\n- plugins: [{name: overcommit}]", "gate: none", "because resourcequota is in an earlier tier", ""},
		"on in one of two":   {"enqueue, allocate", "[{name: overcommit, enableJobEnqueued: false}, {name: overcommit}]", "overcommitFactor: 1.2", "", ""},
		"a misplaced switch": {"enqueue, allocate", "[{name: overcommit, arguments: {enableJobEnqueued: false}}]", "overcommitFactor: 1.2", "", "plugin overcommit: argument enableJobEnqueued false: Volcano does not read it inside arguments: want it next to arguments"},
		"no preemption":      {"enqueue, allocate", "[{name: overcommit}]", "overcommitFactor: 1.2", "minResources are free\n", ""},
		"preemption":         {"enqueue, allocate, preempt", "[{name: overcommit}]", "overcommitFactor: 1.2", "are free, or could be freed by evicting pods of lower priority\n", ""},
		"a factor":           {"enqueue, allocate", "[{name: overcommit, arguments: {overcommit-factor: 1.5}}]", "overcommitFactor: 1.5", "1.5 times the nodes' resources", ""},
		"a factor as a text": {"enqueue, allocate", `[{name: overcommit, arguments: {overcommit-factor: "2"}}]`, "overcommitFactor: 2", `overcommit-factor "2": it counts here, although Volcano since 1.6 ignores numbers in quotes and uses 1.2`, ""},
		"too small a factor": {"enqueue, allocate", "[{name: overcommit, arguments: {overcommit-factor: 0.5}}]", "overcommitFactor: 1.2", "overcommit-factor 0.5: it is less than 1", ""},
		"no factor":          {"enqueue, allocate", "[{name: overcommit, arguments: {overcommit-factor: many}}]", "overcommitFactor: 1.2", "", `overcommit-factor "many": want a number from 1 to 1000`},
		"not a number":       {"enqueue, allocate", `[{name: overcommit, arguments: {overcommit-factor: "NaN"}}]`, "overcommitFactor: 1.2", "", `overcommit-factor "NaN": want a number from 1 to 1000`},
		"queues":             {"enqueue, allocate", "[{name: proportion}]", "", "", ""},
		"nobody has a say":   {"enqueue, allocate", "[{name: gang}]", "gate: none", "no plugin overcommit, proportion or capacity", ""},
		"it is switched off": {"enqueue, allocate", "[{name: overcommit, enableJobEnqueued: false}]", "gate: none", "no plugin overcommit, proportion or capacity", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Volcano([]byte("actions: \"" + c.actions + "\"\ntiers:\n- plugins: " + c.plugins + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			config, notes, unknown := string(r.Config), strings.Join(r.Notes, "\n"), strings.Join(r.Unknown, "\n")
			if !strings.Contains(config, c.args) || strings.Contains(config, "admission:") != (c.args != "") {
				t.Errorf("want %q in\n%s", c.args, config)
			}
			if !strings.Contains(notes, c.note) || strings.Contains(notes, "no counterpart") || !strings.Contains(unknown, c.unknown) || (c.unknown == "") != (unknown == "") {
				t.Errorf("notes:\n%s\nunknown:\n%s\nwant %q and %q", notes, unknown, c.note, c.unknown)
			}
		})
	}
}
