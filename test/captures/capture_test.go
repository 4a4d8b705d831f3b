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

// options that change what lstopo shows beyond what we can compare.
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
				compare(t, machine(t, archive), theirs, hidden[name], "package", "core", "l3", "numa", "memory", "distances", "pci", "names")
			})
		}
	}
	t.Logf("%d outputs of lstopo compared", compared)
}
