package main

import (
	"archive/tar"
	"compress/gzip"
	_ "embed" // completion
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive, or a symbolic link if link is not empty.
type entry struct {
	name, from, link string
	mode             int64
	text             string // contents if from is empty
}

// completion lets kubectl complete `kubectl berth`: it calls kubectl_complete-PLUGIN.
//
//go:embed kubectl_complete-berth
var completion string

// archives writes berth-VERSION-OS-ARCH.tar.gz for each platform.
func (r *release) archives(binaries []binary) error {
	for _, p := range r.platforms {
		entries := []entry{
			{name: "LICENSE", from: filepath.Join(r.source, "LICENSE"), mode: 0o644},
			{name: "kubectl-berth", link: "berth", mode: 0o777},
			{name: "kubectl_complete-berth", text: completion, mode: 0o755},
		}
		for _, b := range binaries {
			if b.platform == p {
				entries = append(entries, entry{name: b.name(), from: b.path, mode: 0o755})
			}
		}
		folder := r.folder(p)
		for i := range entries {
			entries[i].name = path.Join(folder, entries[i].name)
		}
		err := r.create(folder+archiveEnding, func(w io.Writer) error {
			zip := gzip.NewWriter(w)
			return errors.Join(writeTar(zip, entries, r.time), zip.Close())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const archiveEnding = ".tar.gz"

// folder returns the folder in an archive, which is also the archive's name without its extension.
func (r *release) folder(p platform) string {
	return fmt.Sprintf("berth-%s-%s-%s", r.version, p.os, p.arch)
}

// writeTar writes the entries by name, owned by root, all with the same time. The result does not
// depend on place or time of the build.
func writeTar(w io.Writer, entries []entry, stamp time.Time) error {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	out := tar.NewWriter(w)
	for _, e := range entries {
		if err := writeEntry(out, e, stamp); err != nil {
			return err
		}
	}
	return out.Close()
}

func writeEntry(out *tar.Writer, e entry, stamp time.Time) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: stamp, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
	if e.link != "" {
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		return out.WriteHeader(h)
	}
	if e.from == "" {
		h.Size = int64(len(e.text))
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.WriteString(out, e.text)
		return err
	}
	return writeFile(out, h, e.from)
}

// writeFile writes a file below a header, which gets its size.
func writeFile(out *tar.Writer, h *tar.Header, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	h.Size = info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return err
}

// restamp copies a packed tar with the release's time in place of each file's.
func (r *release) restamp(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	zipped, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return r.create(filepath.Base(to), func(w io.Writer) error {
		zip := gzip.NewWriter(w)
		return errors.Join(copyTar(zip, tar.NewReader(zipped), r.time), zip.Close())
	})
}

func copyTar(w io.Writer, in *tar.Reader, stamp time.Time) error {
	out := tar.NewWriter(w)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		h.ModTime, h.AccessTime, h.ChangeTime = stamp, time.Time{}, time.Time{}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}
