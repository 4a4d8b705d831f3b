package conformance

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/test/conformance/diff"
	"github.com/berth-dev/berth/test/conformance/gen"
	"github.com/berth-dev/berth/test/replay/cases"
)

var (
	admissionsWanted = flag.Int("n", 4000, "admissions to compare")
	firstSeed        = flag.Uint64("seed", 1, "seed of the first case; the others count up")
	workers          = flag.Int("workers", 2, "processes")
	keepGoing        = flag.Int("mismatches", 1, "stop after that many mismatches")
	shrinkBudget     = flag.Int("shrink", 1500, "cases to try when a mismatch is shrunk; 0 leaves it as it is")
	caseFile         = flag.String("file", "", "compare the cases of this NDJSON file instead of random ones")
	mismatchDir      = flag.String("out", "", "directory to put shrunk cases into")
)

// TestConformance compares the engine with the kubelet on random cases.
func TestConformance(t *testing.T) {
	r := &run{t: t, begin: time.Now(), next: *firstSeed}
	pool := Pool{Command: Self(roleVariable, "compare"), Workers: *workers}
	next := func() []byte {
		seed := strconv.FormatUint(r.next, 10)
		r.next++
		return []byte(seed)
	}
	if *caseFile != "" {
		next = fileLines(t, *caseFile)
		*admissionsWanted = math.MaxInt
	}
	if err := pool.Run(next, r.got); err != nil {
		t.Fatal(err)
	}
	r.report()
	for _, m := range r.mismatches {
		r.shrink(m, &selfAsker{Asker{Command: Self(roleVariable, "compare")}})
	}
	if r.admissions < *admissionsWanted && *caseFile == "" && len(r.mismatches) == 0 {
		t.Errorf("compared %d admissions, wanted %d", r.admissions, *admissionsWanted)
	}
}

// TestMemoryOnlyNodes compares engine and kubelet on machines with more NUMA nodes than hints can
// have, most of them without CPUs.
func TestMemoryOnlyNodes(t *testing.T) { compareSome(t, gen.Wide, 400) }

// TestPodLevelManagers compares the engine with kubelets that place pods by spec.resources.
func TestPodLevelManagers(t *testing.T) { compareSome(t, gen.Level, 600) }

// compareSome compares cases with seeds of one kind.
func compareSome(t *testing.T, sort uint64, most int) {
	r := &run{t: t, begin: time.Now(), next: sort + 1}
	pool := Pool{Command: Self(roleVariable, "compare"), Workers: *workers}
	next := func() []byte {
		if r.cases > most {
			return nil
		}
		seed := strconv.FormatUint(r.next, 10)
		r.next++
		return []byte(seed)
	}
	if err := pool.Run(next, r.got); err != nil {
		t.Fatal(err)
	}
	r.report()
	for _, m := range r.mismatches {
		r.shrink(m, &selfAsker{Asker{Command: Self(roleVariable, "compare")}})
	}
	if r.admitted < 500 {
		t.Errorf("%d admitted, want 500 at least", r.admitted)
	}
}

// run has the counts of a run of TestConformance.
type run struct {
	t               *testing.T
	begin, said     time.Time
	next            uint64
	cases           int
	admissions      int
	admitted        int
	left, chance    int
	notStarted      int
	declined        int
	defects         map[string]int
	kubelet, engine float64
	mismatches      []Compared
	perished        int
}

func (r *run) got(a Answer) bool {
	c, err := compared(a.Reply, a.Err)
	return r.count(string(a.Line), c, err)
}

// compared reads the reply of a child in the role "compare".
func compared(reply []byte, err error) (c Compared, _ error) {
	if err == nil {
		err = json.Unmarshal(reply, &c)
	}
	if err == nil && c.Error != "" {
		err = errors.New(c.Error)
	}
	return c, err
}

// count adds one comparison and reports whether to continue.
func (r *run) count(line string, c Compared, err error) bool {
	if err != nil {
		r.t.Errorf("%s: %v", line, err)
		r.perished++
		return r.perished < 10
	}
	r.add(&c)
	if len(c.Differences) > 0 {
		r.mismatches = append(r.mismatches, c)
	}
	if time.Since(r.said) > 10*time.Second {
		r.said = time.Now()
		r.report()
	}
	return r.admissions < *admissionsWanted && len(r.mismatches) < *keepGoing
}

func (r *run) add(c *Compared) {
	r.cases++
	r.admissions += c.Admissions
	r.admitted += c.Admitted
	r.left += c.Left
	r.kubelet += c.Kubelet
	r.engine += c.Engine
	if c.Chance {
		r.chance++
	}
	if c.NotStarted {
		r.notStarted++
	}
	if c.Declined {
		r.declined++
	}
	if c.Defect != "" {
		if r.defects == nil {
			r.defects = map[string]int{}
		}
		r.defects[string(c.Defect)]++
	}
}

// report prints a line of progress; go test shows it at once with -v.
func (r *run) report() {
	s := time.Since(r.begin).Seconds()
	fmt.Printf("%d admissions compared (%d admitted) in %d cases, %d differ; %.0f admissions/s; kubelet %.1f s, engine %.2f s; "+
		"%d cases not started, %d declined, %d part by chance (%d admissions left out), defects foreseen %v\n",
		r.admissions, r.admitted, r.cases, len(r.mismatches), float64(r.admissions)/s, r.kubelet/1000, r.engine/1000,
		r.notStarted, r.declined, r.chance, r.left, r.defects)
}

// comparer compares engine and kubelet on one case.
type comparer interface {
	compare(line []byte) (Compared, error)
	close()
}

// selfAsker compares in a child of this program.
type selfAsker struct{ asker Asker }

func (s *selfAsker) compare(line []byte) (Compared, error) { return compared(s.asker.Ask(line)) }
func (s *selfAsker) close()                                { s.asker.Close() }

// shrink reduces a mismatch and prints it.
func (r *run) shrink(m Compared, with comparer) {
	defer with.close()
	c, err := cases.DecodeCase([]byte(m.Line))
	if err != nil {
		r.t.Fatal(err)
	}
	best := m
	budget := *shrinkBudget
	if slices.ContainsFunc(m.Differences, func(d diff.Difference) bool { return d.Field == "outcome" }) {
		budget = min(budget, 25) // every try may take the kubelet's time-out
	}
	Shrink(c, budget, func(c *cases.Case) bool {
		line, err := cases.Encode(c)
		if err != nil {
			return false
		}
		now, err := with.compare(line)
		if err != nil || len(now.Differences) == 0 {
			return false
		}
		best = now
		return true
	})
	r.print(best)
}

func (r *run) print(m Compared) {
	var b strings.Builder
	for _, d := range m.Differences {
		fmt.Fprintln(&b, d)
	}
	r.t.Errorf("engine and kubelet differ:\n%sreplay this line:\n%s", b.String(), m.Line)
	if *mismatchDir == "" {
		return
	}
	d := m.Differences[0]
	name := fmt.Sprintf("%s/%s-%s.ndjson", *mismatchDir, area(d.Field), d.Case)
	if err := os.WriteFile(name, []byte(m.Line+"\n"), 0o644); err != nil {
		r.t.Error(err)
	}
	if err := os.WriteFile(name+".txt", []byte(b.String()), 0o644); err != nil {
		r.t.Error(err)
	}
}

// area guesses which part of the engine causes a difference.
func area(field string) string {
	switch {
	case strings.Contains(field, "readmit") || strings.Contains(field, "panic"):
		return "restart"
	case strings.Contains(field, "cpus") || strings.Contains(field, "defaultCPUs"):
		return "cpu"
	case strings.Contains(field, "memory"):
		return "memory"
	case strings.Contains(field, "devices"):
		return "device"
	case strings.Contains(field, "hint"):
		return "merge"
	}
	return "verdict"
}
