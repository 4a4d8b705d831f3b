package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestKrew reads the manifest as krew would: every archive has the manifest's sum and contains the
// manifest's files.
func TestKrew(t *testing.T) {
	r := made(t)
	text, err := os.ReadFile(filepath.Join(r.out, krewFile))
	if err != nil {
		t.Fatal(err)
	}
	var p krewPlugin
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name+".yaml" != krewFile {
		t.Errorf("not a manifest of the plugin berth:\n%s", text)
	}
	if p.Spec.Version != r.version || p.Spec.ShortDescription == "" || strings.ContainsAny(p.Spec.ShortDescription, "\r\n") {
		t.Errorf("version or short description: %+v", p.Spec)
	}
	if len(p.Spec.Platforms) != len(known) {
		t.Fatalf("%d platforms: want %d:\n%s", len(p.Spec.Platforms), len(known), text)
	}
	for i, at := range known {
		checkKrewPlatform(t, r, at, &p.Spec.Platforms[i])
	}
}

func checkKrewPlatform(t *testing.T, r *release, at platform, got *krewPlatform) {
	t.Helper()
	if l := got.Selector.MatchLabels; len(l) != 2 || l["os"] != at.os || l["arch"] != at.arch {
		t.Errorf("selector %v: want %s", l, at)
	}
	name := "berth-v0.1.0-" + at.os + "-" + at.arch + ".tar.gz"
	if want := "https://files.example/b/v0.1.0/" + name; got.URI != want {
		t.Errorf("address %s: want %s", got.URI, want)
	}
	if sum, err := sumOf(filepath.Join(r.out, name)); err != nil || got.SHA256 != sum || len(sum) != 64 {
		t.Errorf("%s: sum %s: want %s, %v", name, got.SHA256, sum, err)
	}
	held := filesOfArchive(t, filepath.Join(r.out, name))
	bin := false
	for _, move := range got.Files {
		if !slices.Contains(held, move.From) {
			t.Errorf("%s has no %s: %q", name, move.From, held)
		}
		bin = bin || path.Join(move.To, path.Base(move.From)) == got.Bin
	}
	if !bin {
		t.Errorf("%s: no file becomes %s: %v", name, got.Bin, got.Files)
	}
}

func filesOfArchive(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(zip)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			names = append(names, h.Name)
		}
	}
}
