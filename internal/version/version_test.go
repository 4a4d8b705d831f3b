package version

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBaseIsThatOfGoMod(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "k8s.io/kubernetes "+Base+"\n") {
		t.Errorf("go.mod has another k8s.io/kubernetes than %s", Base)
	}
}

// TestKubernetesIsWhatWasBuilt: a binary that was built with another go.mod has the release in it.
func TestKubernetesIsWhatWasBuilt(t *testing.T) {
	api := func(version string, replace *debug.Module) []*debug.Module {
		return []*debug.Module{{Path: "k8s.io/apimachinery", Version: "v0.1.0"}, {Path: "k8s.io/api", Version: version, Replace: replace}}
	}
	for name, tc := range map[string]struct {
		deps []*debug.Module
		want string
	}{
		"as required":  {api("v0.36.3", nil), "v1.36.3"},
		"replaced":     {api("v0.0.0", &debug.Module{Path: "k8s.io/api", Version: "v0.36.4"}), "v1.36.4"},
		"a candidate":  {api("v0.38.0-rc.1", nil), "v1.38.0-rc.1"},
		"by a folder":  {api("v0.36.3", &debug.Module{Path: "../api"}), Base},
		"a test's own": {nil, Base},
	} {
		if got := kubernetesOf(&debug.BuildInfo{Deps: tc.deps}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got := Kubernetes(); got != Base {
		t.Errorf("this test is of %s, want %s", got, Base)
	}
}
