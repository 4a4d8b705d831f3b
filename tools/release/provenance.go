package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	attestation "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// provenanceSuffix ends the name of the provenance file.
	provenanceSuffix = ".provenance.json"
	// predicateType is the type of SLSA's provenance (slsa.dev/spec/v1.0/provenance).
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType defines the external parameters: the arguments of make release.
	buildType = "https://github.com/berth-dev/berth/blob/main/build/release.mk"
	builderID = "https://github.com/berth-dev/berth/tools/release"
	sourceURI = "git+https://github.com/berth-dev/berth"
)

// provenance writes berth-VERSION.provenance.json, an in-toto statement with SLSA's provenance: the
// commit, the arguments and the toolchain of the build. It contains no time and no machine name, so
// that a repeated build has the same file.
func (r *release) provenance() error {
	statement, err := r.statement()
	if err != nil {
		return err
	}
	text, err := protojson.Marshal(statement)
	if err != nil {
		return err
	}
	return r.create("berth-"+r.version+provenanceSuffix, func(w io.Writer) error { return writeIndented(w, text) })
}

// writeIndented writes JSON in a fixed form, because protojson inserts spaces at random.
func writeIndented(w io.Writer, text []byte) error {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return err
	}
	compact := bytes.Clone(out.Bytes())
	out.Reset()
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return err
	}
	_, err := w.Write(append(out.Bytes(), '\n'))
	return err
}

func (r *release) statement() (*attestation.Statement, error) {
	subjects, err := r.subjects()
	if err != nil {
		return nil, err
	}
	var platforms []any
	for _, p := range r.platforms {
		platforms = append(platforms, p.String())
	}
	parameters, err := structpb.NewStruct(map[string]any{"version": r.version, "platforms": platforms, "ldflags": r.ldflags, "url": r.url})
	if err != nil {
		return nil, err
	}
	predicate, err := asStruct(&provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: buildType, ExternalParameters: parameters,
			ResolvedDependencies: []*attestation.ResourceDescriptor{
				{Uri: sourceURI, Digest: map[string]string{"gitCommit": r.commit}},
				{Uri: "pkg:generic/go@" + strings.TrimPrefix(runtime.Version(), "go")},
			},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: builderID}},
	})
	if err != nil {
		return nil, err
	}
	return &attestation.Statement{Type: attestation.StatementTypeUri, Subject: subjects, PredicateType: predicateType, Predicate: predicate}, nil
}

// subjects returns the files of the release, with their sums.
func (r *release) subjects() (all []*attestation.ResourceDescriptor, err error) {
	names, err := filesIn(r.out)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		sum, err := sumOf(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		all = append(all, &attestation.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	return all, nil
}

func asStruct(m proto.Message) (*structpb.Struct, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, protojson.Unmarshal(text, out)
}

// verifyProvenance returns an error unless the statement names exactly the files of the sums.
func verifyProvenance(dir string, sums map[string]string) error {
	var found string
	for name := range sums {
		if strings.HasSuffix(name, provenanceSuffix) {
			found = name
		}
	}
	if found == "" {
		return fmt.Errorf("%s: no file *%s: want the provenance of the release", dir, provenanceSuffix)
	}
	path := filepath.Join(dir, found)
	s, err := readStatement(path)
	if err != nil {
		return err
	}
	said := map[string]string{found: sums[found]}
	for _, subject := range s.Subject {
		said[subject.Name] = subject.Digest["sha256"]
	}
	for name, sum := range sums {
		if said[name] != sum {
			return fmt.Errorf("%s: subject %s: sha256 %q: want %s, as %s says", path, name, said[name], sum, sumsFile)
		}
	}
	return nil
}

// readStatement reads a provenance statement.
func readStatement(path string) (*attestation.Statement, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &attestation.Statement{}
	if err := protojson.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w: want an in-toto statement written by make release", path, err)
	}
	if s.PredicateType != predicateType {
		return nil, fmt.Errorf("%s: predicateType: %q: want %s", path, s.PredicateType, predicateType)
	}
	return s, nil
}
