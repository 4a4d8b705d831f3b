package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
)

var foldersWanted = flag.Int("folders", 400, "folders of checkpoints to start a kubelet over")

// TestCheckpoints compares kubeletstate's findings about random checkpoints and configurations with
// the managers of this release.
func TestCheckpoints(t *testing.T) {
	compareFolders(t, oracle.Version, Self(roleVariable, "oracle"))
}

// TestCheckpointsOfVersion does the same with the managers of another release (make
// conformance-versions).
func TestCheckpointsOfVersion(t *testing.T) {
	if *kubeletBinary == "" {
		t.Skip("no -kubelet: run make conformance-versions")
	}
	compareFolders(t, otherVersion(t), kubeletCommand)
}

// folders counts the results.
type folders struct {
	t       *testing.T
	version placement.Version
	next    uint64

	compared, refused, wrong int
	// starts, stops and chances count files by kubeletstate's prediction: the kubelet starts over
	// the file, does not start, or depends on chance.
	starts, stops, chances int
	words                  map[string]int
}

func compareFolders(t *testing.T, version placement.Version, kubelet func() *exec.Cmd) {
	f := &folders{t: t, version: version, next: *firstSeed, words: map[string]int{}}
	pool := Pool{Command: kubelet, Workers: *workers}
	if err := pool.Run(f.line, f.got); err != nil {
		t.Fatal(err)
	}
	for _, w := range slices.Sorted(maps.Keys(f.words)) {
		t.Logf("%6d %s", f.words[w], w)
	}
	fmt.Printf("Kubernetes 1.%d: %d pairs of checkpoints and configuration from seed %d: %d files over which the kubelet starts, %d over which it does not, "+
		"%d left to chance; %d differ\n", version, f.compared, *firstSeed, f.starts, f.stops, f.chances, f.wrong)
	if f.compared < *foldersWanted && f.wrong == 0 {
		t.Errorf("compared %d, want %d", f.compared, *foldersWanted)
	}
	if f.starts < f.compared/10 || f.stops < f.compared/4 || f.chances > f.compared/20 {
		t.Error("the files are not a good mixture")
	}
}

func (f *folders) line() []byte {
	folder := folderFor(f.next, f.version)
	f.next++
	line, err := json.Marshal(folder)
	if err != nil {
		f.t.Error(err)
		return nil
	}
	return line
}

// got compares one answer, and reports whether to continue.
func (f *folders) got(a Answer) bool {
	seed := *firstSeed + uint64(a.Index)
	folder, _ := folderOf(a.Line)
	startup, unusable := startupOf(&folder, f.version)
	var over Over
	err := a.Err
	if err != nil && unusable != nil { // a kubelet may crash on a machine that Berth refuses
		f.refused++
		return true
	}
	if err == nil {
		err = json.Unmarshal(a.Reply, &over)
	}
	if err != nil || over.Error != "" {
		f.t.Errorf("seed %d: %v %s", seed, err, over.Error)
		return false
	}
	if over.Refused != "" || unusable != nil {
		f.refused++
		return true
	}
	f.compared++
	cpu := kubeletstate.StartCPU(startup, over.Dir, folder.Files[kubeletstate.CPUFile])
	memory := kubeletstate.StartMemory(startup, over.Dir, folder.Files[kubeletstate.MemoryFile])
	same := f.compare(over.CPU, cpu)
	same = f.compare(over.Memory, memory) && same && over.Device == nil
	if !same {
		f.wrong++
		f.t.Errorf("they differ; repeat it with -seed=%d -folders=1\n%s", seed, f.show(&folder, &over, cpu, memory))
	}
	return f.compared < *foldersWanted && f.wrong < *keepGoing
}

// compare compares the kubelet's error about a file with kubeletstate's.
func (f *folders) compare(said *string, err error) bool {
	if err == nil {
		f.starts++
		f.words["starts"]++
		return said == nil
	}
	foretold := err.(*kubeletstate.StartError)
	if foretold.Chance {
		f.chances++
	} else {
		f.stops++
	}
	f.words[kindOfWords(foretold)]++
	if said == nil {
		return foretold.Chance
	}
	return slices.Contains(foretold.Messages(), *said)
}

// kindOfWords returns a message without the parts that differ from file to file.
func kindOfWords(e *kubeletstate.StartError) string {
	words := strings.FieldsFunc(e.Problem, func(r rune) bool { return r == '"' })
	for i := 1; i < len(words); i += 2 {
		words[i] = "..."
	}
	text := strings.Join(words, `"`)
	if i := strings.Index(text, "(pod:"); i >= 0 {
		_, rest, _ := strings.Cut(text[i:], ")")
		text = text[:i] + "(...)" + rest
	}
	if i := strings.Index(text, "pod: "); i == 0 {
		_, rest, _ := strings.Cut(text, "cpuset:")
		text = "pod: ... cpuset:" + rest
	}
	if e.Chance {
		text += " (chance)"
	}
	return text
}

func (f *folders) show(folder *Folder, over *Over, cpu, memory error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "case: %s\n", folder.Case)
	for name, data := range folder.Files {
		fmt.Fprintf(&b, "%s: %s\n", name, data)
	}
	for _, m := range []struct {
		name string
		said *string
		err  error
	}{{"cpu", over.CPU, cpu}, {"memory", over.Memory, memory}, {"device", over.Device, nil}} {
		said := "starts"
		if m.said != nil {
			said = *m.said
		}
		fmt.Fprintf(&b, "%s manager: kubelet: %s\n", m.name, said)
		if foretold, ok := m.err.(*kubeletstate.StartError); ok {
			fmt.Fprintf(&b, "    foretold: %q, by chance %t\n", foretold.Messages(), foretold.Chance)
		} else {
			fmt.Fprintln(&b, "    foretold: starts")
		}
	}
	return b.String()
}

// startupOf returns the engine's Startup for a folder's machine and configuration.
func startupOf(folder *Folder, version placement.Version) (*placement.Startup, error) {
	c, err := cases.DecodeCase(folder.Case)
	if err != nil {
		return nil, err
	}
	view, err := c.Machine.View()
	if err != nil {
		return nil, err
	}
	config, err := c.Config.Placement(version)
	if err != nil {
		return nil, err
	}
	model, err := placement.NewModel(view, config)
	if err != nil {
		return nil, err
	}
	s := model.Startup()
	return &s, nil
}
