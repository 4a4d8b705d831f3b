package nodestate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology"
)

// TestObjectsOfOthers reads objects that other exporters wrote on real clusters, or that are in
// their documents, and asks each node about pods. testdata/others.txt has the results.
func TestObjectsOfOthers(t *testing.T) {
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	var files []string
	for _, kind := range []string{"nrt", "numatopology"} {
		found, _ := filepath.Glob(filepath.Join(root, "realdata", "k8s", kind, "*")) // the pattern is valid
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skip("no objects of others beside the repository")
	}
	slices.Sort(files)
	var out strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "== %s\n", filepath.Base(file))
		tell(&out, data)
	}
	golden.File(t, filepath.Join("testdata", "others.txt"), out.String())
}

// tell prints the data of an object, and the pods for which its node has room.
func tell(out *strings.Builder, data []byte) {
	var o metav1.Object = &nrt.NodeResourceTopology{}
	if strings.Contains(string(data), "kind: Numatopology") {
		o = &nodeinfo.Numatopology{}
	}
	if err := yaml.Unmarshal(data, o); err != nil {
		fmt.Fprintf(out, "not decoded: %v\n", err)
		return
	}
	var kinds Kinds
	r, err := kinds.ReadCoarse(o, new(wire.Beside), nil)
	switch {
	case err != nil:
		fmt.Fprintf(out, "not read: %v\n", err)
		return
	case r.Unusable != nil:
		fmt.Fprintf(out, "%s: %s\n", r.Unusable.Reason, r.Unusable.Text)
		return
	}
	spec := &r.Kind.Spec
	fmt.Fprintf(out, "%s of %s: %s, scope %s\n%s\n", r.Guarantee, r.Source.Kind, spec.Config.TopologyManagerPolicy, spec.Config.TopologyManagerScope, spec.Machine)
	account := new(ledger.Ledger).Open(nil)
	account.Accept(r.State)
	for _, cpus := range []int64{1, 2, 4, 8, 16, 32, 64} {
		q := placement.Request{UID: "q", Guaranteed: true, Containers: []placement.ContainerRequest{{
			Name: "c", MilliCPU: cpus * 1000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 30}},
		}}}
		a := account.View().Ask(ledger.Question{Candidate: &ledger.Candidate{Request: &q}})
		if a.Outcome != ledger.Admitted {
			refusal, _ := account.View().Explain(&q)
			fmt.Fprintf(out, "%d CPUs: %s\n", cpus, refusal.String())
			return
		}
		fmt.Fprintf(out, "%d CPUs: on %s, exact %v\n", cpus, place(a.Verdict.NUMA), a.Exact)
	}
}

// place prints the NUMA nodes to which a pod is pinned.
func place(s topology.NUMASet) string {
	if s == 0 {
		return "no NUMA node in particular"
	}
	return "NUMA " + s.String()
}
