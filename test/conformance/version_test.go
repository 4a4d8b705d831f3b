package conformance

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/replay/cases"
)

var (
	kubeletBinary = flag.String("kubelet", "", "program that answers cases with another release's managers (test/conformance/kubelet)")
	kubeletMinor  = flag.String("version", "", "its release: 1.33 to 1.37")
)

// TestVersion compares the engine as another kubelet release with that release's managers (make
// conformance-versions).
func TestVersion(t *testing.T) {
	if *kubeletBinary == "" {
		t.Skip("no -kubelet: run make conformance-versions")
	}
	version := otherVersion(t)
	v := other{run: run{t: t, begin: time.Now(), next: *firstSeed}, version: version}
	pool := Pool{Command: kubeletCommand, Workers: *workers}
	if err := pool.Run(v.line, v.answer); err != nil {
		t.Fatal(err)
	}
	v.report()
	for _, m := range v.mismatches {
		v.shrink(m, &otherAsker{asker: Asker{Command: kubeletCommand}, version: version})
	}
	if v.admissions < *admissionsWanted && len(v.mismatches) == 0 {
		t.Errorf("compared %d admissions, wanted %d", v.admissions, *admissionsWanted)
	}
}

// otherVersion returns the kubelet release of the program.
func otherVersion(t *testing.T) placement.Version {
	minor, err := strconv.ParseUint(strings.TrimPrefix(*kubeletMinor, "1."), 10, 8)
	version := placement.Version(minor)
	if err != nil || !version.Known() {
		t.Fatalf("-version: %q: want 1.33 to 1.37", *kubeletMinor)
	}
	return version
}

func kubeletCommand() *exec.Cmd { return exec.Command(*kubeletBinary) }

// other is a run against the managers in another program.
type other struct {
	run
	version placement.Version
}

func (o *other) line() []byte {
	c := caseFor(o.next, o.version)
	line, err := cases.Encode(c)
	if err != nil {
		o.t.Error(err)
		return nil
	}
	o.next++
	return line
}

func (o *other) answer(a Answer) bool {
	err := a.Err
	var c Compared
	if err == nil {
		c, err = compareTold(a.Line, a.Reply, o.version)
	}
	return o.count(string(a.Line), c, err)
}

// compareTold compares another program's answer to a case with the engine's.
func compareTold(line, reply []byte, version placement.Version) (Compared, error) {
	var told Told
	if err := json.Unmarshal(reply, &told); err != nil {
		return Compared{}, err
	}
	if told.Error != "" {
		return Compared{}, errors.New(told.Error)
	}
	c, err := cases.DecodeCase(line)
	if err != nil {
		return Compared{}, err
	}
	begin := time.Now()
	out := judge(&told.Told, answer(c, version))
	out.Engine = float64(time.Since(begin).Microseconds()) / 1000
	if len(out.Differences) > 0 {
		out.Line = strings.TrimSpace(string(line))
	}
	return out, nil
}

// otherAsker asks another program when a case is reduced.
type otherAsker struct {
	asker   Asker
	version placement.Version
}

func (o *otherAsker) compare(line []byte) (Compared, error) {
	reply, err := o.asker.Ask(line)
	if err != nil {
		return Compared{}, fmt.Errorf("kubelet: %w", err)
	}
	return compareTold(line, reply, o.version)
}

func (o *otherAsker) close() { o.asker.Close() }
