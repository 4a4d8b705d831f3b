// Package examples has manifests to start with: pods, workloads and related objects, one file each.
// Its tests read every file as the API server does and place its pods.
package examples

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names are the manifests that Read knows, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Read returns a manifest.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return data, nil
}
