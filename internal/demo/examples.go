package demo

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed examples/*.yaml
var examples embed.FS

// Examples names the manifests that Example knows, sorted.
func Examples() []string {
	entries, err := examples.ReadDir("examples")
	if err != nil {
		panic(err) // embedded
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Example returns a manifest to try on the playground.
func Example(name string) ([]byte, error) {
	data, err := examples.ReadFile(path.Join("examples", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("%q: want one of %s", name, strings.Join(Examples(), ", "))
	}
	return data, nil
}
