package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// inventory writes berth-VERSION.cdx.json, a CycloneDX list of the binaries' modules by `go version
// -m`.
func (r *release) inventory(binaries []binary) error {
	bom, err := r.bom(binaries)
	if err != nil {
		return err
	}
	return r.create("berth-"+r.version+".cdx.json", func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

func (r *release) bom(binaries []binary) (*cdx.BOM, error) {
	bom := cdx.NewBOM()
	top := cdx.Component{Type: cdx.ComponentTypeApplication, Name: "berth", Version: r.version, BOMRef: "berth"}
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z"), Component: &top}
	libraries := map[string]cdx.Component{}
	var components []cdx.Component
	var links []cdx.Dependency
	for _, b := range binaries {
		info, err := buildinfo.ReadFile(b.path)
		if err != nil {
			return nil, err
		}
		component, err := r.component(b, info.GoVersion)
		if err != nil {
			return nil, err
		}
		var uses []string
		for _, l := range librariesOf(info) {
			libraries[l.BOMRef] = l
			uses = append(uses, l.BOMRef)
		}
		components = append(components, component)
		links = append(links, cdx.Dependency{Ref: component.BOMRef, Dependencies: &uses})
	}
	for _, l := range libraries {
		components = append(components, l)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components, bom.Dependencies = &components, &links
	return bom, nil
}

// component describes a binary.
func (r *release) component(b binary, goVersion string) (cdx.Component, error) {
	sum, err := sumOf(b.path)
	return cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: b.name(), Version: r.version,
		BOMRef:     fmt.Sprintf("%s-%s-%s", b.name(), b.platform.os, b.platform.arch),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Properties: &[]cdx.Property{{Name: "go", Value: goVersion}, {Name: "platform", Value: b.platform.String()}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}, err
}

// librariesOf lists the modules of a binary, and the standard library, which has its own
// vulnerabilities.
func librariesOf(info *debug.BuildInfo) []cdx.Component {
	out := []cdx.Component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, library(m.Path, m.Version))
	}
	return out
}

// library describes a module by its package URL (github.com/package-url, type golang).
func library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, Name: path, Version: version, BOMRef: url, PackageURL: url}
}
