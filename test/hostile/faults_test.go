package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsApply: the patches with which make e2e-hostile-proof puts faults back apply to this
// tree, and the make target names all of them.
func TestFaultsApply(t *testing.T) {
	patches, err := filepath.Glob("faults/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("patches %v, %v", patches, err)
	}
	targets, err := os.ReadFile("../../build/hostile.mk")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches {
		name := strings.TrimSuffix(filepath.Base(p), ".patch")
		if !strings.Contains(string(targets), " "+name+":") {
			t.Errorf("build/hostile.mk has no expected harm for %s", p)
		}
		cmd := exec.Command("build/overlay.sh", filepath.Join("test/hostile", p), t.TempDir())
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
