package agent

import (
	"os"
	"path/filepath"
	"testing"
)

// TestConfigFileIsWatched: the agent notices a changed file, because ConfigFile has a fingerprint.
func TestConfigFileIsWatched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	write := func(text string) string {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ConfigFile(file, "").fingerprint()
	}
	if write("cpuManagerPolicy: none\n") == write("cpuManagerPolicy: static\n") {
		t.Error("the fingerprint of a changed file is the same")
	}
	if got := ConfigFile(file, "").newer; got == nil {
		t.Error("changes since the kubelet's start are not found")
	}
}
