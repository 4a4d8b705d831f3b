package nodestate

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// ReadDocument reads the NodeTopology objects of a document of YAML or JSON: one object, or a list
// of them. Errors in a report are in its Reading. ReadDocument returns an error if the document
// contains other objects.
func (k *Kinds) ReadDocument(doc []byte) (all []*Reading, err error) {
	var list struct {
		Kind  string                  `json:"kind"`
		Items []v1alpha1.NodeTopology `json:"items"`
	}
	if err := yaml.Unmarshal(doc, &list); err != nil {
		var object any
		broken := yaml.Unmarshal(doc, &object)
		if _, ok := object.(map[string]any); broken == nil && !ok {
			return nil, fmt.Errorf("%.80q: want an object", bytes.TrimSpace(doc))
		}
		return nil, err
	}
	switch {
	case list.Kind == "NodeTopology":
		list.Items = make([]v1alpha1.NodeTopology, 1)
		if err := yaml.Unmarshal(doc, &list.Items[0]); err != nil {
			return nil, err
		}
	case !strings.HasSuffix(list.Kind, "List"):
		return nil, fmt.Errorf("kind %q: want NodeTopology%s", list.Kind, amountsAlone(list.Kind))
	case len(list.Items) == 0:
		return nil, fmt.Errorf("kind %q: no items: want NodeTopology objects", list.Kind)
	}
	for i := range list.Items {
		nt := &list.Items[i]
		if nt.Kind != "" && nt.Kind != "NodeTopology" {
			return nil, fmt.Errorf("items[%d]: kind %q: want NodeTopology", i, nt.Kind)
		}
		all = append(all, k.Read(nt, nil))
	}
	return all, nil
}

// amountsAlone explains why the report of another exporter cannot replace a NodeTopology. It
// returns "" for other kinds.
func amountsAlone(kind string) string {
	if kind != "NodeResourceTopology" && kind != "Numatopology" {
		return ""
	}
	return ", which berth-agent writes: this kind has only amounts"
}
