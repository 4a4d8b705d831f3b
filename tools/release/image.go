package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Each image has one command and nothing else. Berth connects only to the API server, whose CA a
// pod receives, so the images have no CA bundle.
var imageNames = commandsOf(platform{os: "linux"})

// users has the user of each image. The agent runs as root, without capabilities, because only root
// can read the kubelet's checkpoints.
var users = map[string]string{
	"berth": "65532:65532", "berth-agent": "0:0", "berth-controller": "65532:65532", "berth-scheduler": "65532:65532",
}

// refName is the annotation by which an OCI layout names its content (image-spec/annotations.md).
const refName = "org.opencontainers.image.ref.name"

// imageName is the annotation with which containerd's import names an image in full (containerd
// core/images, AnnotationImageName). An image that is imported without a registry then has the name
// localRepository/NAME:TAG on every node.
const (
	imageName       = "io.containerd.image.name"
	localRepository = "localhost/berth"
)

// archiveSuffix ends the names of images.
const archiveSuffix = ".oci.tar"

// images writes NAME-TAG.oci.tar for each image: an OCI layout with an index of all platforms.
func (r *release) images(binaries []binary) error {
	var names []string
	of := map[string][]binary{}
	for _, b := range binaries {
		if b.platform.os != "linux" {
			continue // images are for Linux only
		}
		if of[b.name()] == nil {
			names = append(names, b.name())
		}
		of[b.name()] = append(of[b.name()], b)
	}
	for _, name := range names {
		fmt.Fprintf(r.progress, "   image %s\n", name)
		index, err := r.index(of[name])
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		if err := r.archive(of[name][0], index); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return nil
}

// tag returns the tag of a binary's image.
func (r *release) tag(b binary) string { return r.version + b.suffix() }

// index has the same command for all platforms.
func (r *release) index(binaries []binary) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		image, err := r.image(b)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.platform.os, Architecture: b.platform.arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, r.labels(binaries[0])).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotations make no index")
	}
	return annotated, nil
}

func (r *release) labels(b binary) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    b.command,
		"org.opencontainers.image.version":  r.tag(b),
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created":  r.time.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// image returns the binary in one layer.
func (r *release) image(b binary) (v1.Image, error) {
	var packed bytes.Buffer
	if err := writeTar(&packed, []entry{{name: b.command, from: b.path, mode: 0o755}}, r.time); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.platform.os, b.platform.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{Entrypoint: []string{"/" + b.command}, User: users[b.command], Labels: r.labels(b)}
	return mutate.ConfigFile(image, config)
}

// archive writes the index as an OCI layout in a tar.
func (r *release) archive(b binary, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp("", "berth-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	into, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := into.AppendIndex(index, layout.WithAnnotations(map[string]string{
		refName: r.tag(b), imageName: localRepository + "/" + b.command + ":" + r.tag(b),
	})); err != nil {
		return err
	}
	entries, err := filesOf(dir)
	if err != nil {
		return err
	}
	return r.create(b.command+"-"+r.tag(b)+archiveSuffix, func(w io.Writer) error { return writeTar(w, entries, r.time) })
}

// filesOf lists the files below a folder.
func filesOf(dir string) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		entries = append(entries, entry{name: filepath.ToSlash(name), from: path, mode: 0o644})
		return err
	})
	return slices.Clip(entries), err
}
