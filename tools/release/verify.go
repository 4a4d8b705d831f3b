package main

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// sumsFile lists the release's files as sha256sum does.
const sumsFile = "SHA256SUMS"

func writeSums(dir string) error {
	names, err := filesIn(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(text.String()), 0o644)
}

// filesIn lists the files of a release by name, without the checksums and their signature.
func filesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != sumsFile && e.Name() != signatureFile {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// verify says whether every file of a release is there and whole, every image holds what it names, the
// provenance speaks of these files, and the owner of the public key has signed them; "" for no key.
// The result is the number of files.
func verify(dir, publicKey string) (int, error) {
	sums, err := readSums(dir)
	if err != nil {
		return 0, err
	}
	if err := verifySignature(dir, publicKey); err != nil {
		return 0, err
	}
	names, err := filesIn(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if sums[name] == "" {
			return 0, fmt.Errorf("%s: %s is not listed: want the files of one release, and no others", filepath.Join(dir, sumsFile), name)
		}
	}
	for name, want := range sums {
		// The error about an image says more than that its sum is wrong.
		if strings.HasSuffix(name, archiveSuffix) {
			if err := withIndexes(filepath.Join(dir, name), func(i v1.ImageIndex) error { return validate.Index(i) }); err != nil {
				return 0, err
			}
		}
		got, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		if got != want {
			return 0, fmt.Errorf("%s: sha256 is %s, %s says %s: fetch or build it again", filepath.Join(dir, name), got, sumsFile, want)
		}
	}
	return len(sums), verifyProvenance(dir, sums)
}

func readSums(dir string) (map[string]string, error) {
	path := filepath.Join(dir, sumsFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: want the folder of a release, which make release writes", err)
	}
	defer file.Close()
	sums := map[string]string{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(sum) != hex.EncodedLen(sha256.Size) || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s:%d: %q: want SHA256, two blanks, the name of a file", path, n, lines.Text())
		}
		sums[name] = sum
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("%s: empty: want a line for each file", path)
	}
	return sums, lines.Err()
}

// withIndexes unpacks an OCI archive and hands over the indexes in it.
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
		return fmt.Errorf("%s: the archive is cut short: fetch or build it again", path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want an OCI archive, which make release writes", path, err)
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

// maxBlob bounds a file of an archive, in bytes: ten times what the largest has.
const maxBlob = 1 << 30

// unpack writes the files of a tar below a folder, and none elsewhere.
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
			return fmt.Errorf("%q: %d bytes of type %q: want files of at most %d bytes", h.Name, h.Size, h.Typeflag, maxBlob)
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
