package deploy

import (
	"bytes"
	"testing"
)

func TestManifests(t *testing.T) {
	all := Manifests()
	position := func(text string) int {
		for i, m := range all {
			if bytes.Contains(m, []byte(text)) {
				return i
			}
		}
		t.Fatalf("no manifest with %q", text)
		return -1
	}
	kinds := []string{"kind: CustomResourceDefinition", "kind: Namespace\n", "kind: ClusterRole\n", "kind: ValidatingAdmissionPolicy\n"}
	for i := 1; i < len(kinds); i++ {
		if position(kinds[i-1]) >= position(kinds[i]) {
			t.Errorf("%s comes after %s", kinds[i-1], kinds[i])
		}
	}
}
