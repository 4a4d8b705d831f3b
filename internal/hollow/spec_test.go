package hollow

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSocketPaths: Write accepts a directory only if the path of every socket fits into a socket
// address. The sockets of device plugins have the longest paths.
func TestSocketPaths(t *testing.T) {
	spec := &Spec{Name: "n", Machine: "numa:1 core:1 pu:1", Plugins: make([]Plugin, 11)}
	for i := range spec.Plugins {
		spec.Plugins[i].Resource = "example.com/gpu"
	}
	const longest = "/device-plugins/plugin-10.sock"
	base := t.TempDir() + "/"
	for length, fits := range map[int]bool{maxSocketPath: true, maxSocketPath + 1: false} {
		dir := Dir(base + strings.Repeat("d", length-len(base)-len(longest)))
		err := dir.Write(spec, nil)
		if fits && err != nil || !fits && (err == nil || !strings.Contains(err.Error(), filepath.Join(string(dir), longest))) {
			t.Errorf("the longest socket path has %d bytes: got error %v, want none up to %d bytes", length, err, maxSocketPath)
		}
	}
}
