package nodestate

import (
	"strings"
	"testing"
)

func TestReadDocument(t *testing.T) {
	const head = "apiVersion: berth.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: node}\n"
	for what, c := range map[string]struct {
		doc, err string
		want     int
	}{
		"one object":               {doc: head, want: 1},
		"a list":                   {doc: "kind: NodeTopologyList\nitems: [{metadata: {name: a}}, {metadata: {name: b}, kind: NodeTopology}]", want: 2},
		"an empty list":            {doc: "kind: List\nitems: []", err: `kind "List": no items`},
		"something else":           {doc: "kind: Pod", err: `kind "Pod": want NodeTopology`},
		"another exporter's":       {doc: "kind: NodeResourceTopology", err: `kind "NodeResourceTopology": want NodeTopology, which berth-agent writes: this kind has only amounts`},
		"something else in a list": {doc: "kind: List\nitems: [{kind: NodeTopology}, {kind: Pod}]", err: `items[1]: kind "Pod": want NodeTopology`},
		"no object":                {doc: "- 1", err: `"- 1": want an object`},
		"a text":                   {doc: "$ cat x\n{}\n", err: `"$ cat x\n{}": want an object`},
	} {
		all, err := new(Kinds).ReadDocument([]byte(c.doc))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || len(all) != c.want {
			t.Errorf("%s: %d readings, %v; want %d, %q", what, len(all), err, c.want, c.err)
		}
		for _, r := range all {
			if r.Unusable == nil {
				t.Errorf("%s: %s has no machine, and is relied on", what, r.Node)
			}
		}
	}
}

// FuzzReadDocument looks for documents that cause a panic.
func FuzzReadDocument(f *testing.F) {
	f.Add("kind: NodeTopologyList\nitems: [{metadata: {name: a}, spec: {machine: {string: 'package:1 numa:1 core:1 pu:1'}}}]")
	f.Fuzz(func(t *testing.T, doc string) {
		all, err := new(Kinds).ReadDocument([]byte(doc))
		for _, r := range all {
			if err != nil || (r.Unusable == nil) != (r.State != nil) {
				t.Errorf("%q: %+v, %v", doc, r, err)
			}
		}
	})
}
