package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// errNotSound is the error for a negative answer of check. The output already has the reason.
var errNotSound = errors.New("the check found at least one problem")

// checked is the result for one file, directory or object.
type checked struct {
	Path string `json:"path"`
	// What is the kind of the object: cpu_manager_state, memory_manager_state,
	// kubelet_internal_checkpoint, allocated_pods_state, "kubelet state" for a directory of these
	// files, or NodeTopology NAME.
	What    string `json:"what"`
	Sound   bool   `json:"sound"`
	Summary string `json:"summary,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// NewCheckCommand returns the verb that verifies a kubelet's checkpoints and NodeTopologies.
func NewCheckCommand() *cobra.Command {
	var node nodeFlags
	var out output
	cmd := &cobra.Command{
		Use:   "check DIR|FILE...",
		Short: "Verify a kubelet's checkpoints, or NodeTopology objects",
		Long: `Verifies checksums and invariants of a kubelet's checkpoints (its root directory, or single files), or of NodeTopology
objects in YAML or JSON. With --node it also checks the checkpoints against the machine and its configuration: a
kubelet would start with them, every CPU is shared or held, and all memory is free or reserved. A running kubelet
writes its files one after another, so check reads a file again before it reports an error. Exit code 1 means that
something is wrong.`,
		Example: `  berth check /var/lib/kubelet
  berth check /var/lib/kubelet --node / --kubelet-config /var/lib/kubelet/config.yaml
  kubectl get nodetopologies -o yaml | berth check -`,
		Args: arguments(1, math.MaxInt, "a kubelet's root directory, files of it or of NodeTopologies, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := checker{stdin: cmd.InOrStdin(), pause: func() { time.Sleep(kubeletstate.LookPause) }}
			if cmd.Flags().Changed(nodeFlag) {
				c.node = &node
			} else if given := changedOf(cmd, []string{kubeletConfigFlag, kubeletDropInsFlag, kubeletFlagsFlag, kubeletVersionFlag}); given != "" {
				return Usagef("--%s: want --%s too, because check compares checkpoints with a configuration only if it knows the machine", given, nodeFlag)
			}
			for _, path := range args {
				if err := c.patiently(path); err != nil {
					return err
				}
			}
			asTable := func(w io.Writer) error { return checkTable(w, c.found) }
			return cmp.Or(printCleaned(cmd, out, c.found, asTable), answerNo(!allSound(c.found), errNotSound))
		},
	}
	cmd.Flags().StringVar(&node.machine, nodeFlag, "", "machine string or capture to compare the checkpoints with")
	node.registerKubelet(cmd)
	node.guard = true
	out.register(cmd)
	return cmd
}

type checker struct {
	stdin io.Reader
	node  *nodeFlags // nil if checkpoints are not compared with a node
	// against is the node with which the checkpoints are compared, once it is loaded.
	against *whatif.Node
	pause   func() // waits between two checks of a path
	found   []checked
}

// patiently checks a path. If a check fails, it checks again until the path is sound or the results
// stop changing (kubeletstate.Settle).
func (c *checker) patiently(path string) error {
	if path == "-" {
		return c.path(path)
	}
	mark := len(c.found)
	look := func() ([]checked, bool, error) {
		c.found = c.found[:mark]
		err := c.path(path)
		found := slices.Clone(c.found[mark:])
		return found, allSound(found), err
	}
	_, err := kubeletstate.Settle(look, slices.Equal[[]checked], c.pause)
	return err
}

func allSound(found []checked) bool {
	return !slices.ContainsFunc(found, func(f checked) bool { return !f.Sound })
}

func checkTable(w io.Writer, found []checked) error {
	var rows [][]string
	for _, f := range found {
		sound := "yes"
		if !f.Sound {
			sound = "NO"
		}
		rows = append(rows, []string{f.Path, f.What, sound, f.Summary + f.Problem})
	}
	return columns(w, "PATH | WHAT | SOUND | DETAIL", rows)
}

// add records a result; a nil err means sound.
func (c *checker) add(path, what, summary string, err error) {
	f := checked{Path: path, What: what, Sound: err == nil, Summary: summary}
	if err != nil {
		f.Summary, f.Problem = "", err.Error()
	}
	c.found = append(c.found, f)
}

// path checks a directory or file. It returns an error if there is nothing to check.
func (c *checker) path(path string) error {
	if path != "-" {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return c.dir(path)
		}
	}
	data, err := manifest.ReadInput(path, c.stdin, kubeletstate.MaxFileBytes)
	if err != nil {
		return err
	}
	what := kindOf(path, data)
	if what == "" {
		return c.reports(path, data)
	}
	if err := c.load(); err != nil {
		return err
	}
	if len(pasted.Text(data)) < len(data) {
		c.add(path, what, "", fmt.Errorf("%s: it begins with a byte order mark, and a kubelet cannot read it: want the kubelet's own file", path))
		return nil
	}
	summary, err := checkFile(what, path, data)
	starts := c.starts(what, filepath.Dir(path), data)
	if inexact, ok := errors.AsType[*topology.ParseError](starts); ok {
		return inexact
	}
	c.add(path, what, summary, pasted.Explain(cmp.Or(starts, err), data))
	return nil
}

// load sets c.against from the flags that describe a machine and a kubelet's configuration.
func (c *checker) load() error {
	if c.node == nil || c.against != nil {
		return nil
	}
	spec, err := c.node.spec()
	if err == nil {
		c.against, err = spec.Load()
	}
	return err
}

// starts returns an error if the kubelet could not start with a checkpoint in dir. The error is a
// *topology.ParseError if the machine string is not exact enough to know this.
func (c *checker) starts(what, dir string, data []byte) error {
	if c.against == nil {
		return nil
	}
	startup, root := c.against.Startup(), kubeletstate.RootOf(dir)
	switch what {
	case kubeletstate.CPUFile:
		return kubeletstate.StartCPU(&startup, root, data)
	case kubeletstate.MemoryFile:
		return c.against.Described(kubeletstate.StartMemory(&startup, root, data), data)
	}
	return nil
}

// dir checks every checkpoint below a kubelet's root directory. If all of them are sound and a node
// is given, dir also checks whether they agree with each other and with the node.
func (c *checker) dir(dir string) error {
	raw, err := kubeletstate.ReadRaw(os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := c.load(); err != nil {
		return err
	}
	sound, any := true, false
	for _, f := range []struct {
		name string
		data []byte
	}{
		{kubeletstate.CPUFile, raw.CPU}, {kubeletstate.MemoryFile, raw.Memory},
		{kubeletstate.DeviceFile, raw.Devices}, {kubeletstate.AdmittedFile, raw.Admitted},
	} {
		if f.data == nil {
			continue
		}
		any = true
		what := filepath.Base(f.name)
		summary, err := checkFile(what, f.name, f.data)
		starts := c.starts(what, dir, f.data)
		if inexact, ok := errors.AsType[*topology.ParseError](starts); ok {
			return inexact
		}
		err = cmp.Or(starts, err)
		c.add(filepath.Join(dir, f.name), what, summary, err)
		sound = sound && err == nil
	}
	if !any {
		return fmt.Errorf("%s: want a folder with at least one of the files %s, %s, %s and %s", dir, kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile, kubeletstate.AdmittedFile)
	}
	if c.against == nil || !sound {
		return nil
	}
	summary := ""
	if err = c.against.ReadState(dir); err == nil {
		summary = fmt.Sprintf("pods that hold resources: %d; the state agrees with the machine and the configuration", c.against.Pods())
	}
	c.add(dir, "kubelet state", summary, err)
	return nil
}

// kindOf recognises a checkpoint by the name or the fields of its file. It returns "" if the file
// is not a checkpoint.
func kindOf(path string, data []byte) string {
	names := []string{kubeletstate.CPUFile, kubeletstate.MemoryFile, filepath.Base(kubeletstate.DeviceFile), kubeletstate.AdmittedFile}
	for _, name := range names {
		if filepath.Base(path) == name {
			return name
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(pasted.Text(data), &fields) != nil {
		return ""
	}
	for i, field := range []string{"defaultCpuSet", "machineState", "Data"} {
		if _, ok := fields[field]; ok {
			return names[i]
		}
	}
	if _, ok := fields["data"]; ok && len(fields) == 2 {
		return kubeletstate.AdmittedFile
	}
	return ""
}

// checkFile checks one checkpoint and summarizes its content.
func checkFile(what, path string, data []byte) (string, error) {
	switch what {
	case kubeletstate.CPUFile:
		s, err := kubeletstate.ParseCPU(path, data)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("policy %s, %s with exclusive CPUs, shared CPUs %s%s", s.Policy, wire.Counted(len(s.Entries)+len(s.Legacy), "container"), dash(s.Shared.String()), unverified(s.Verified)), s.Check(path)
	case kubeletstate.MemoryFile:
		s, err := kubeletstate.ParseMemory(path, data)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("policy %s, %s with pinned memory, %s%s", s.Policy, wire.Counted(len(s.Entries), "container"), wire.Counted(len(s.Nodes), "NUMA node"), unverified(s.Verified)), s.Check(path)
	case kubeletstate.AdmittedFile:
		s, err := kubeletstate.ParseAdmitted(path, data)
		if err != nil {
			return "", err
		}
		return wire.Counted(len(s.UIDs), "pod") + " admitted", nil
	}
	s, err := kubeletstate.ParseDevices(path, data)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s registered, %s", wire.Counted(len(s.Registered), "resource"), wire.Counted(len(s.Entries), "allocation")), s.Check(path)
}

func unverified(verified bool) string {
	if verified {
		return ""
	}
	return ", no checksum"
}

// reports checks the NodeTopologies in a file.
func (c *checker) reports(path string, data []byte) error {
	var kinds nodestate.Kinds
	mark := len(c.found)
	for doc, err := range manifest.Documents(data) {
		var found []*nodestate.Reading
		if err == nil && len(doc) > 0 {
			found, err = kinds.ReadDocument(doc)
		}
		if err != nil {
			return fmt.Errorf("%s: neither a kubelet's checkpoint nor a valid NodeTopology: %w", path, pasted.Explain(err, data))
		}
		for _, r := range found {
			summary, err := checkReading(r)
			c.add(path, r.Source.Kind+" "+r.Node, summary, err)
		}
	}
	if len(c.found) == mark {
		return fmt.Errorf("%s: empty: want a kubelet's checkpoint or NodeTopology objects", path)
	}
	return nil
}

// checkReading returns an error if a scheduler could not rely on the report.
func checkReading(read *nodestate.Reading) (string, error) {
	if why := read.Unusable; why != nil {
		if ready, ok := errors.AsType[*wire.NotReadyError](why); ok {
			return "", fmt.Errorf("the condition Ready of the NodeTopology is not True: %s: %s", ready.Reason, ready.Message)
		}
		return "", why
	}
	s, err := read.Kind.Model.StateOf(&read.Report.Snapshot)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("report %d, %s, shared %s", read.Report.Sequence, wire.Counted(s.Pods(), "pod"), dash(read.Report.Snapshot.SharedCPUs.String())), nil
}
