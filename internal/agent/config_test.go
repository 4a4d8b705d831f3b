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
		return ConfigFile(file, "", "").fingerprint()
	}
	if write("cpuManagerPolicy: none\n") == write("cpuManagerPolicy: static\n") {
		t.Error("the fingerprint of a changed file is the same")
	}
	if got := ConfigFile(file, "", "").newer; got == nil {
		t.Error("changes since the kubelet's start are not found")
	}
}

// TestFlagsOverTheFile: OpenShift moves systemReserved from a KubeletConfig into a flag. The file
// alone would have another sum than its reservedMemory.
func TestFlagsOverTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.conf")
	const text = "kubeReserved: {memory: 500Mi}\nsystemReserved: {pid: \"1000\"}\nreservedMemory: [{numaNode: 0, limits: {memory: 1100Mi}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ConfigFile(file, "", "--system-reserved=cpu=500m,memory=500Mi").read(t.Context())
	if err != nil || c.SystemReserved["memory"] != "500Mi" || c.KubeReserved["memory"] != "500Mi" {
		t.Errorf("%v: %+v", err, c)
	}
}
