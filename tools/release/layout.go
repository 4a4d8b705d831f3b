package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// withIndexes unpacks an OCI archive and calls do with its indexes.
func withIndexes(path string, do func(v1.ImageIndex) error) error {
	dir, err := os.MkdirTemp("", "berth-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err = unpack(path, dir)
	if err == nil {
		err = eachIndex(dir, do)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the archive is incomplete: fetch or build it again", path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want an OCI archive written by make release", path, err)
	}
	return nil
}

func eachIndex(dir string, do func(v1.ImageIndex) error) error {
	from, err := layout.FromPath(dir)
	if err != nil {
		return err
	}
	top, err := from.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) == 0 {
		return errors.New("no image in it")
	}
	for _, d := range manifest.Manifests {
		index, err := top.ImageIndex(d.Digest)
		if err != nil {
			return err
		}
		if err := do(index); err != nil {
			return err
		}
	}
	return nil
}

// maxBlob is the maximum size of a file in an archive, in bytes. It is ten times the size of the largest file.
const maxBlob = 1 << 30

// unpack writes the files of a tar below a folder. It refuses paths outside the folder.
func unpack(path, dir string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in := tar.NewReader(file)
	for count := 0; ; count++ {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) && count == 0:
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg || h.Size > maxBlob:
			return fmt.Errorf("%q: %d bytes, tar type %q: want a regular file of at most %d bytes", h.Name, h.Size, h.Typeflag, maxBlob)
		}
		if err := writeBelow(root, h.Name, in); err != nil {
			return err
		}
	}
}

func writeBelow(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
