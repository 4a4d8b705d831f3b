package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

// errPartly is the error of a verb that has answered, but could not read all documents.
var errPartly = errors.New("some documents could not be read: the answer does not cover them")

// manifests are the pods in the files that the user named.
type manifests struct{ *manifest.Pods }

// partly returns errPartly if a document could not be read. A note names the document.
func (m manifests) partly() error { return answerNo(m.Wrong > 0, errPartly) }

// readManifests reads files and folders. Documents that it cannot read are in m.Wrong.
func readManifests(cmd *cobra.Command, paths []string, recursive bool) (m manifests, err error) {
	m.Pods, err = manifest.Source{Paths: paths, Recursive: recursive, Stdin: cmd.InOrStdin()}.Read()
	return m, err
}

// ofNode keeps the pods of one node and, after them, the pods without a node. If name is "", the
// pods must not be on several nodes.
func (m manifests) ofNode(name string) error {
	nodes := map[string]int{}
	for i := range m.Templates {
		if on := m.Templates[i].Pod.Spec.NodeName; on != "" {
			nodes[on] += m.Templates[i].Replicas
		}
	}
	names := slices.Sorted(maps.Keys(nodes))
	var counted []string
	for _, on := range names[:min(len(names), maxNamed)] {
		counted = append(counted, fmt.Sprintf("%s (%s)", on, wire.Counted(nodes[on], "pod")))
	}
	if len(names) > maxNamed {
		counted = append(counted, "...")
	}
	switch {
	case name == "" && len(names) > 1:
		return fmt.Errorf("the pods name %d nodes in spec.nodeName: %s: want --%s with one of these nodes", len(names), strings.Join(counted, ", "), podsOfFlag)
	case name != "" && len(names) == 0:
		return fmt.Errorf("--%s %q: leave out --%s, because no pod has spec.nodeName", podsOfFlag, name, podsOfFlag)
	case name != "" && nodes[name] == 0:
		return fmt.Errorf("--%s %q: want a node that pods name in spec.nodeName: %s%s", podsOfFlag, name, strings.Join(counted, ", "), suggest.DidYouMean(name, names))
	}
	others := func(t manifest.Template) bool {
		return name != "" && t.Pod.Spec.NodeName != "" && t.Pod.Spec.NodeName != name
	}
	m.Templates = slices.DeleteFunc(m.Templates, others)
	slices.SortStableFunc(m.Templates, func(a, b manifest.Template) int { return waits(&a) - waits(&b) })
	return nil
}

// waits returns 1 for a pod without a node and 0 for any other pod. It is a sort key.
func waits(t *manifest.Template) int {
	if t.Pod.Spec.NodeName == "" {
		return 1
	}
	return 0
}
