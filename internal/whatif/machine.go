package whatif

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/capture"
	"github.com/berth-dev/berth/internal/lscpu"
	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/topology"
)

// ReadMachine reads a machine. If text, or its part before the first colon, is an existing path,
// text names a live system, a capture (see capture.Open) or a file with lscpu's output. Otherwise
// text is a machine string.
func ReadMachine(text string) (*topology.Machine, error) {
	path, _, _ := strings.Cut(text, ":")
	if _, err := os.Stat(path); err != nil {
		m, parseErr := topology.Parse(text)
		if parseErr != nil && strings.ContainsAny(text, "/.") && !strings.Contains(text, " ") {
			return nil, fmt.Errorf("--node %s: neither a readable file or folder, nor a machine string: %w", text, parseErr)
		}
		if parseErr == nil {
			parseErr = possible(m)
		}
		return m, meant(text, parseErr)
	}
	return ReadCapture(text)
}

// meant extends an error about an unknown key with the known key that was probably meant.
func meant(text string, err error) error {
	if wrong := new(topology.ParseError); errors.As(err, &wrong) {
		key, _, _ := strings.Cut(wrong.Value, ":")
		if strings.Contains(text, key+":") && !slices.Contains(topology.Keys(), key) {
			wrong.Want += suggest.DidYouMean(key, topology.Keys())
		}
	}
	return err
}

// ReadCapture reads the machine from a folder that contains sys/, from an archive of such a folder,
// or from a file with lscpu's output.
func ReadCapture(path string) (*topology.Machine, error) {
	c, err := capture.Open(path)
	if err != nil {
		return readPrinted(path, err)
	}
	defer c.Close()
	m, err := sysfs.Read(c.FS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// readPrinted reads a machine from a file with the output of lscpu. `err` is the error of
// capture.Open; readPrinted returns it if the file is not a text.
func readPrinted(path string, err error) (*topology.Machine, error) {
	f, openErr := os.Open(path)
	if openErr != nil {
		return nil, err
	}
	defer f.Close()
	text, readErr := io.ReadAll(io.LimitReader(f, lscpu.MaxText+1))
	switch form := pasted.What(text); {
	case readErr != nil || !form.IsMachine() && form != pasted.UTF16 && !isText(text):
		return nil, err
	case form == pasted.Unknown:
		return nil, pasted.Explain(fmt.Errorf("%s: this is a text file, not a capture: want a folder with sys/ in it, an archive of such a folder, or the output of lscpu -p", path), text)
	}
	m, err := lscpu.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// isText reports whether the beginning of a file is text and not an archive.
func isText(data []byte) bool {
	first := data[:min(len(data), 1<<10)]
	if end := bytes.LastIndexByte(first, '\n'); len(first) < len(data) && end >= 0 { // the last character may be cut off
		first = first[:end]
	}
	return len(data) > 0 && bytes.IndexByte(first, 0) < 0 && utf8.Valid(first)
}

// leastMemory is less than the memory of any NUMA node. A smaller amount was probably written
// without its unit.
const leastMemory = 1 << 20

// possible returns an error for a machine that cannot exist.
func possible(m *topology.Machine) error {
	total := memoryOf(m)
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		if n.MemoryBytes > 0 && n.MemoryBytes < leastMemory {
			return &topology.ParseError{Item: "mem", Value: fmt.Sprint(n.MemoryBytes),
				Want: "at least 1Mi for each NUMA node, such as mem:64Gi (a number without a unit is in bytes)"}
		}
		if total == 0 && len(n.HugePages) > 0 && n.HugePages[0].Count > 0 {
			return &topology.ParseError{Item: "huge", Value: fmt.Sprintf("%s of %d bytes on NUMA node %d",
				wire.Counted(int(n.HugePages[0].Count), "page"), n.HugePages[0].PageBytes, n.ID), Want: "mem:SIZE too, because huge pages are part of a NUMA node's memory"}
		}
	}
	return nil
}

// memoryOf returns the memory of all NUMA nodes in bytes, or 0 if it is unknown.
func memoryOf(m *topology.Machine) (sum uint64) {
	for i := range m.NUMANodes {
		sum += m.NUMANodes[i].MemoryBytes
	}
	return sum
}
