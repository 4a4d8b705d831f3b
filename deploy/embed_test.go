package deploy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
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

// TestReadersMayWatch: a user who may list the kinds of the map and of -w may also watch them.
func TestReadersMayWatch(t *testing.T) {
	data, err := manifests.ReadFile("rbac/viewer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	followed := []string{"nodetopologies", "noderesourcetopologies", "numatopologies", "podgroups", "reservations", "nodes", "pods"}
	seen := 0
	for _, doc := range strings.Split(string(data), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if slices.Contains(followed, resource) {
					if seen++; !slices.Contains(rule.Verbs, "watch") {
						t.Errorf("%s: %s may be listed and not watched", role.Name, resource)
					}
				}
			}
		}
	}
	if seen < 2*len(followed)-2 {
		t.Errorf("%d rules name what is followed", seen)
	}
}
