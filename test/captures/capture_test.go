package captures

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func hwlocArchives(t *testing.T) []string {
	return glob(t, filepath.Join(shared(), "realdata/sysfs/hwloc*/*.tar.bz2"), filepath.Join(repository, ".cache/debian/hwloc-*/tests/hwloc/linux/*.tar.bz2"))
}

// changedOutput matches options that change lstopo's output so that it cannot be compared.
var changedOutput = regexp.MustCompile(`--(merge|ignore|filter|disallowed)|-l3|kept`)

// expectedOf returns the files with the expected output of a capture, by suffix.
func expectedOf(archive string) (files []string) {
	base := strings.TrimSuffix(archive, ".tar.bz2")
	for _, suffix := range []string{".console", ".xml", ".output", ".xml.output"} {
		options, _ := os.ReadFile(strings.TrimSuffix(base+suffix, ".output") + ".options")
		if _, err := os.Stat(base + suffix); err == nil && !changedOutput.Match(options) {
			files = append(files, base+suffix)
		}
	}
	return files
}

// variants are outputs of lstopo under other settings, by capture.
var variants = []struct{ archive, output, aspects string }{
	{"nvidiagpunumanodes.tar.bz2", "nvidiagpunumanodes-kept.console", "package core l3 numa memory distances"},
	{"nvidiagpunumanodes.tar.bz2", "nvidiagpunumanodes.kept.output", "package core l3 numa memory distances"},
	{"nvidia-dgx-gb10.tar.bz2", "nvidia-dgx-gb10-nomidr.xml", "package core l3 numa memory"},
	{"16em64t-4s2c2t.tar.bz2", "16em64t-4s2c2t_ncaches.output", "package core numa memory"},
	{"16amd64-8n2c-cpusets.tar.bz2", "16amd64-8n2c-cpusets_noadmin.output", "package core l3 numa memory distances"},
	{"16em64t-4s2c2t-offlines.tar.bz2", "16em64t-4s2c2t-offlines-xml.xml", "package core l3 numa memory"},
}

func TestHwlocVariantsAgree(t *testing.T) {
	for _, archive := range hwlocArchives(t) {
		for _, v := range variants {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(archive), v.output))
			if v.archive != filepath.Base(archive) || err != nil {
				continue
			}
			t.Run(v.output, func(t *testing.T) {
				theirs, err := readHwloc(string(text))
				if err != nil {
					t.Fatal(err)
				}
				compare(t, machine(t, archive), theirs, outlook{aspects: strings.Fields(v.aspects)})
			})
		}
	}
}

var allAspects = []string{"package", "core", "l3", "numa", "memory", "distances", "pci", "names"}

func TestHwlocAgrees(t *testing.T) {
	compared := 0
	for _, archive := range hwlocArchives(t) {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.bz2")
		for _, file := range expectedOf(archive) {
			compared++
			t.Run(filepath.Base(file), func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := readHwloc(string(text))
				if err != nil {
					t.Fatal(err)
				}
				compare(t, machine(t, archive), theirs, outlook{allAspects, hidden[name]})
			})
		}
	}
	t.Logf("%d outputs of lstopo compared", compared)
}
