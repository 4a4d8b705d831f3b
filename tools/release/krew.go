package main

import (
	"io"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// krewFile is the manifest with which krew installs `kubectl berth`.
const krewFile = "berth.yaml"

// krewPlugin is a Plugin of krew.googlecontainertools.github.com/v1alpha2, with only the written
// fields (sigs.k8s.io/krew, pkg/index/types.go).
type krewPlugin struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   krewName `json:"metadata"`
	Spec       krewSpec `json:"spec"`
}

type krewName struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

// krewPlatform is an archive for a platform: its URL, its checksum, and the plugin's files in it.
type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
	Files    []krewMove   `json:"files"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type krewMove struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// krew writes the manifest, with the sums of the existing archives.
func (r *release) krew() error {
	p := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewName{"berth"},
		Spec: krewSpec{
			Version:          r.version,
			ShortDescription: "Show and explain NUMA placement of pods",
			Description: "Shows the free resources of each NUMA node of a cluster, and the CPUs, memory and devices of pods.\n" +
				"Explains why a pod is on its node or why no node accepts it, and predicts where new pods would go.\n" +
				"The data about nodes comes from the reports of berth-agent.\n",
		},
	}
	for _, at := range r.platforms {
		folder := r.folder(at)
		sum, err := sumOf(filepath.Join(r.out, folder+archiveEnding))
		if err != nil {
			return err
		}
		p.Spec.Platforms = append(p.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": at.os, "arch": at.arch}},
			URI:      strings.TrimSuffix(r.url, "/") + "/" + r.version + "/" + folder + archiveEnding,
			SHA256:   sum, Bin: "berth",
			Files: []krewMove{{folder + "/berth", "."}, {folder + "/LICENSE", "."}},
		})
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return r.create(krewFile, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
