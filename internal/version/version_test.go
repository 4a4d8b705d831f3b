package version

import (
	"os"
	"strings"
	"testing"
)

func TestKubernetesIsThatOfGoMod(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "k8s.io/kubernetes "+Kubernetes+"\n") {
		t.Errorf("go.mod has another k8s.io/kubernetes than %s", Kubernetes)
	}
}
