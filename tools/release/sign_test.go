package main

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// keys writes a key pair; a password encrypts the secret key.
func keys(t *testing.T, password string) (secret, public string) {
	t.Helper()
	pub, priv, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secretText, err := priv.MarshalText()
	if password != "" {
		secretText, err = minisign.EncryptKey(password, priv)
	}
	if err != nil {
		t.Fatal(err)
	}
	publicText, err := pub.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	secret, public = filepath.Join(dir, "minisign.key"), filepath.Join(dir, "minisign.pub")
	spoil(t, secret, secretText)
	spoil(t, public, publicText)
	return secret, public
}

func TestSignedRelease(t *testing.T) {
	r := made(t)
	secret, public := keys(t, "word")
	if err := sign(r.out, secret, "word"); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(filepath.Join(r.out, signatureFile))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := verify(r.out, public); err != nil || n != 12 {
		t.Fatalf("%d files, %v: want 12 files that are whole and signed", n, err)
	}
	if err := sign(r.out, secret, "word"); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(r.out, signatureFile)); err != nil || string(again) != string(first) {
		t.Errorf("signed twice, the signatures differ (%v)", err)
	}
}

// TestSignaturesThatDoNotHold: invalid signatures are refused with a reason.
func TestSignaturesThatDoNotHold(t *testing.T) {
	secret, public := keys(t, "")
	_, other := keys(t, "")
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		key   string
		want  string
	}{
		"another key":     {func(*testing.T, string) {}, other, "not a signature of SHA256SUMS"},
		"no key":          {func(*testing.T, string) {}, filepath.Join("no", "key"), "-public-key"},
		"a key of rubble": {func(*testing.T, string) {}, secret, "want a public key"},
		"no signature":    {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, signatureFile)) }, public, "want the signature"},
		"rubble":          {func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, signatureFile), []byte("x")) }, public, "not a signature"},
		"sums changed after the signature": {func(t *testing.T, dir string) {
			sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, filepath.Join(dir, sumsFile), append(sums, strings.Repeat("0", 64)+"  more\n"...))
		}, public, "not a signature"},
	} {
		t.Run(name, func(t *testing.T) {
			r := made(t)
			if err := sign(r.out, secret, ""); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, r.out)
			if _, err := verify(r.out, c.key); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want ...%s...", err, c.want)
			}
		})
	}
	if err := sign(made(t).out, public, ""); err == nil || !strings.Contains(err.Error(), "want a secret key") {
		t.Errorf("signed with a public key: %v", err)
	}
}

// TestProvenance: the statement names commit, arguments and every file.
func TestProvenance(t *testing.T) {
	r := made(t)
	text, err := os.ReadFile(filepath.Join(r.out, "berth-v0.1.0"+provenanceSuffix))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]any
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	p := got.Predicate.BuildDefinition
	if got.Type != "https://in-toto.io/Statement/v1" || got.PredicateType != predicateType || p.ExternalParameters["version"] != "v0.1.0" ||
		p.ResolvedDependencies[0].Digest["gitCommit"] != "abc" || !strings.HasPrefix(p.ResolvedDependencies[1].URI, "pkg:generic/go@1.") {
		t.Errorf("provenance %s", text)
	}
	if len(got.Subject) != 11 {
		t.Errorf("%d subjects, want every file but the sums and the provenance itself", len(got.Subject))
	}
}

// TestProvenanceOfOtherFiles: a statement about other files than those of the release is refused.
func TestProvenanceOfOtherFiles(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"another sum":       {`"sha256": "`, `"sha256": "0`, "subject"},
		"another predicate": {predicateType, "https://example/other", "want " + predicateType},
		"rubble":            {"{", "}", "want an in-toto statement"},
	} {
		r := made(t)
		path := filepath.Join(r.out, "berth-v0.1.0"+provenanceSuffix)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, path, []byte(strings.Replace(string(text), c.old, c.new, 1)))
		if err := writeSums(r.out); err != nil {
			t.Fatal(err)
		}
		if _, err := verify(r.out, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ...%s...", name, err, c.want)
		}
	}
	r := made(t)
	remove(t, filepath.Join(r.out, "berth-v0.1.0"+provenanceSuffix))
	if err := writeSums(r.out); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(r.out, ""); err == nil || !strings.Contains(err.Error(), "want the provenance of the release") {
		t.Errorf("a release without provenance: %v", err)
	}
}
