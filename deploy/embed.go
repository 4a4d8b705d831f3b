// Package deploy holds the manifests that an installation applies, so that the demo and the tests install the
// very files that users do.
package deploy

import (
	"embed"
	"io/fs"
)

//go:embed crds/*.yaml
var manifests embed.FS

// CRDs are the custom resource definitions: of NodeTopology, and, for clusters in which nobody else has
// installed it, of NodeResourceTopology.
func CRDs() fs.FS { return sub("crds") }

func sub(dir string) fs.FS {
	f, err := fs.Sub(manifests, dir)
	if err != nil {
		panic("deploy: " + err.Error()) // only for an invalid path, and dir is a constant
	}
	return f
}
