package enforce

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// twoNodes has two NUMA nodes of four cores of two threads: 0-7 and 8-15. CPU 0 is reserved.
const twoNodes = "package:2 numa:1 l3:1 core:4 pu:2 number:packed mem:8Gi dist:10,21"

func newBooks(t testing.TB, mode Mode) *Books {
	t.Helper()
	b, err := NewBooks(shapes.Machine(twoNodes), shapes.CPUs("0"), mode)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pinnedTo returns a container with exclusive CPUs, alone in its pod.
func pinnedTo(id, list string) Container {
	return Container{ID: id, Pod: "pod-" + id, Name: id, Decision: &placement.ContainerDecision{Name: id, CPUs: shapes.CPUs(list)}}
}

func shared(id string) Container { return Container{ID: id, Pod: "pod-" + id, Name: id} }

func tellSet(s Set) string {
	text := s.CPUs.String()
	if s.Mems != 0 {
		text += " mems " + s.Mems.String()
	}
	return text
}

func tellUpdates(us []Update) string {
	var parts []string
	for _, u := range us {
		parts = append(parts, u.ID+"="+tellSet(u.Set))
	}
	return strings.Join(parts, " ")
}

// create returns the answer of Create as a text. If the container may start, it has started.
func create(b *Books, c Container) string {
	text := announce(b, c)
	b.Begun(c.ID)
	return text
}

// announce is create, but the container has not started.
func announce(b *Books, c Container) string {
	set, updates, err := b.Create(c)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(tellSet(set) + "; " + tellUpdates(updates))
}

func TestBooksStory(t *testing.T) {
	b := newBooks(t, Hold)
	alone := pinnedTo("alone", "2")
	alone.Decision.Exclusive = joint.ExclusiveCore
	bound := shared("bound")
	bound.Decision = &placement.ContainerDecision{Name: "bound", Shares: []placement.CPUShare{{NUMA: 1, MilliCPU: 500}}, Bounds: placement.BoundCPUs | placement.BoundMemory,
		Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 2, Bytes: 1}}}
	forged := shared("forged")
	forged.Fault = "it is a copy"
	for i, step := range []struct {
		do   func() string
		want string
	}{
		{func() string { return create(b, shared("s")) }, "0-15;"},
		{func() string { return create(b, pinnedTo("a", "4-5")) }, "4-5; s=0-3,6-15"},
		{func() string { return create(b, alone) }, "2; s=0-1,6-15"},
		{func() string { return create(b, bound) }, "8-15 mems 1;"},
		{func() string { return create(b, pinnedTo("b", "8-11")) }, "8-11; bound=12-15 mems 1 s=0-1,6-7,12-15"},
		{func() string { return create(b, pinnedTo("late", "5-6")) }, "berth holds container late: CPUs 5 are held by a"},
		{func() string { return create(b, pinnedTo("late", "3")) }, "berth holds container late: CPUs 3 are held by alone"},
		{func() string { return create(b, pinnedTo("late", "0-1")) }, "berth holds container late: its decision names CPUs 0, which are reserved"},
		{func() string { return create(b, pinnedTo("late", "99")) }, "berth holds container late: its decision names CPUs 99, which the machine does not have"},
		{func() string { return create(b, forged) }, "berth holds container forged: it is a copy"},
		{func() string { return create(b, pinnedTo("rest", "12-15")) }, "12-15; bound=0 mems 1 s=0-1,6-7"},
		{func() string {
			return create(b, func() Container { c := bound; c.ID, c.Pod = "bound2", "p2"; return c }())
		},
			"berth holds container bound: no CPU is free on the NUMA nodes where it has CPU shares"},
		{func() string { return tellUpdates(b.Stop("a")) }, "s=0-1,4-7"},
		{func() string { return create(b, pinnedTo("late", "4-5")) }, "berth holds container late: CPUs 4-5 are held by a"},
		{func() string { return tellUpdates(b.Stop("a")) }, ""},
		{func() string { b.Remove("a"); return create(b, pinnedTo("late", "4-5")) }, "berth holds container late: CPUs 4-5 are held by a"},
		{func() string { b.RemovePod("pod-a"); return create(b, pinnedTo("late", "4-5")) }, "4-5; s=0-1,6-7"},
		{func() string { return tellUpdates(b.Stop("nobody")) }, ""},
	} {
		if got := step.do(); got != step.want {
			t.Fatalf("step %d: %q, want %q", i+1, got, step.want)
		}
	}
}

// TestConfine: with Confine, a container whose decision cannot be carried out runs in the shared
// pool, and this is reported.
func TestConfine(t *testing.T) {
	b := newBooks(t, Confine)
	create(b, pinnedTo("a", "4-5"))
	if got := create(b, pinnedTo("b", "5-6")); got != "0-3,6-15;" {
		t.Errorf("collides: %q", got)
	}
	if got := fmt.Sprint(b.complaints()); got != "[{b CPUs 5 are held by a}]" {
		t.Errorf("complaints %s", got)
	}
}

// TestPodsTakeTurns: containers of one pod may have the same CPUs, and the pod keeps them while
// none of these containers runs.
func TestPodsTakeTurns(t *testing.T) {
	b := newBooks(t, Hold)
	init, app := pinnedTo("init", "4-7"), pinnedTo("app", "4-5")
	app.Pod = init.Pod
	create(b, shared("s"))
	create(b, init)
	b.Stop("init")
	if got := create(b, app); got != "4-5; s=0-3,6-15" {
		t.Errorf("app: %q", got)
	}
	if got := create(b, pinnedTo("x", "6-7")); !strings.Contains(got, "held by init") {
		t.Errorf("CPUs of a pod that is there: %q", got)
	}
	for i := range 5 {
		b.Stop(app.ID)
		app.ID = fmt.Sprint("app", i)
		create(b, app)
	}
	if len(b.all) != 3 {
		t.Errorf("%d containers remembered, want 3: earlier lives are forgotten", len(b.all))
	}
}

// TestSynchronize moves running containers to their CPUs, whatever happened meanwhile.
func TestSynchronize(t *testing.T) {
	b := newBooks(t, Hold)
	right, loose, late := pinnedTo("right", "4-5"), shared("loose"), pinnedTo("late", "5-6")
	right.Created, right.Now.CPUs = 1, shapes.CPUs("4-5")
	loose.Created, loose.Now.CPUs = 2, shapes.CPUs("0-15")
	late.Created, late.Now.CPUs = 3, shapes.CPUs("5-6")
	moved := pinnedTo("moved", "8-9")
	moved.Decision.Bounds, moved.Decision.Memory = placement.BoundMemory, []placement.MemoryBlock{{NUMA: 2}}
	got := tellUpdates(b.Synchronize([]Container{late, loose, moved, right}))
	if want := "late=0-3,6-7,10-15 loose=0-3,6-7,10-15 moved=8-9 mems 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := fmt.Sprint(b.complaints()); got != "[{late CPUs 5 are held by right}]" {
		t.Errorf("complaints %s", got)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestBooksNeverOverlap starts and stops containers at random, on a machine that applies CPU sets
// as a runtime would. No CPU of a running pinned container is ever in another container's set.
func TestBooksNeverOverlap(t *testing.T) {
	held := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		b := newBooks(t, Mode(rng.IntN(2)))
		runs, kinds, known := map[string]topology.CPUSet{}, map[string]bool{}, map[string]Container{}
		apply := func(us []Update) {
			for _, u := range us {
				if _, ok := runs[u.ID]; !ok {
					t.Fatalf("seed %d: an update for %s, which does not run", seed, u.ID)
				}
				runs[u.ID] = u.Set.CPUs
			}
		}
		for i := range 60 {
			switch rng.IntN(5) {
			case 0, 1:
				c := randomContainer(rng, i)
				set, updates, err := b.Create(c)
				if err != nil {
					held++
					break
				}
				apply(updates)
				runs[c.ID], kinds[c.ID], known[c.ID] = set.CPUs, set.Pinned, c
			case 2:
				for id := range runs {
					delete(runs, id)
					apply(b.Stop(id))
					break
				}
			case 3:
				for id := range runs {
					delete(runs, id)
					apply(b.Stop(id))
					b.Remove(id)
					b.RemovePod(known[id].Pod)
					break
				}
			case 4:
				var all []Container
				for id, set := range runs {
					c := known[id]
					c.Now.CPUs, c.Created = set, int64(len(id))
					all = append(all, c)
				}
				apply(b.Synchronize(all))
				for id := range runs {
					kinds[id] = b.all[id].set.Pinned
				}
			}
			if err := b.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for id, set := range runs {
				if set.IsEmpty() {
					t.Fatalf("seed %d: %s runs anywhere", seed, id)
				}
				for other, theirs := range runs {
					if id != other && kinds[id] && set.Intersects(&theirs) {
						t.Fatalf("seed %d: %s is pinned to %s, and %s runs on %s", seed, id, set, other, theirs)
					}
				}
			}
		}
	}
	if held < 100 {
		t.Errorf("%d containers held: want more", held)
	}
}

func randomContainer(rng *rand.Rand, i int) Container {
	c := shared(fmt.Sprint("c", i))
	if rng.IntN(2) == 0 {
		return c
	}
	c.Decision = &placement.ContainerDecision{Name: c.Name, Exclusive: joint.Exclusive(rng.IntN(6) % 3)}
	first := rng.IntN(16)
	for n := range 1 + rng.IntN(4) {
		c.Decision.CPUs.Add(topology.CPUID(first + n))
	}
	if rng.IntN(10) == 0 {
		c.Fault = "forged"
	}
	return c
}

func TestNewBooksNeedsReservedCPUs(t *testing.T) {
	for _, list := range []string{"", "0,99"} {
		if _, err := NewBooks(shapes.Machine(twoNodes), shapes.CPUs(list), Hold); err == nil {
			t.Errorf("reserved %q: no error", list)
		}
	}
}

func TestCgroupDir(t *testing.T) {
	for path, want := range map[string]string{
		"/kubepods/burstable/podabc/0123":                     "kubepods/burstable/podabc/0123",
		"kubepods-burstable-podabc.slice:cri-containerd:0123": "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podabc.slice/cri-containerd-0123.scope",
		"/a/../../b": "b",
		"":           "", "/": "", "x:y": "", "x.slice:y": "", "a--b.slice:c:d": "", "../a.slice:c:d": "", "a.slice:c:../../d": "",
	} {
		got, err := CgroupDir(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestReadBack(t *testing.T) {
	files := fstest.MapFS{
		"a/cpuset.cpus.effective": {Data: []byte("4-5\n")}, "a/cpuset.mems.effective": {Data: []byte("0-1\n")},
		"bad/cpuset.cpus.effective": {Data: []byte("x\n")}, "bad/cpuset.mems.effective": {Data: []byte("0\n")},
	}
	s, err := ReadBack(files, "a")
	if err != nil || s.CPUs != shapes.CPUs("4-5") || s.Mems != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ReadBack(files, "gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	if _, err := ReadBack(files, "bad"); err == nil || !strings.Contains(err.Error(), "bad/cpuset.cpus.effective") {
		t.Errorf("bad: %v", err)
	}
	want := Set{CPUs: shapes.CPUs("4-5")}
	if got := want.Differs(s); got != "" {
		t.Errorf("differs: %s", got)
	}
	want.Mems = 1
	if got := want.Differs(s); got != `may use memory of NUMA nodes "0-1" instead of the decided NUMA nodes "0"` {
		t.Errorf("differs: %s", got)
	}
	want.CPUs = shapes.CPUs("4")
	if got := want.Differs(s); got != `runs on CPUs "4-5" instead of the decided CPUs "4"` {
		t.Errorf("differs: %s", got)
	}
}

func FuzzCgroupDir(f *testing.F) {
	f.Add("kubepods-burstable-podabc.slice:cri-containerd:0123")
	f.Add("/kubepods/podabc/0123")
	f.Fuzz(func(t *testing.T, path string) {
		if dir, err := CgroupDir(path); err == nil && !fs.ValidPath(dir) && !strings.ContainsAny(path, "\\\x00") {
			t.Fatalf("%q: %q is no path of a file system", path, dir)
		}
	})
}

// TestBooksWhileContainersBegin: a runtime may lose the move of a container that is just starting.
// Therefore no CPUs are taken from it, and its new CPUs are sent when it has started.
func TestBooksWhileContainersBegin(t *testing.T) {
	b := newBooks(t, Confine)
	create(b, pinnedTo("a", "8-9"))
	if got := announce(b, shared("s")); got != "0-7,10-15;" {
		t.Fatalf("s: %q", got)
	}
	const held = "berth holds container b: CPUs 4-5 are shared by s, which is just starting there: the kubelet tries again"
	if got := announce(b, pinnedTo("b", "4-5")); got != held {
		t.Errorf("b, while s begins: %q", got)
	}
	if got := create(b, shared("next")); got != "0-3,6-7,10-15;" {
		t.Errorf("one that begins after b was held: %q", got)
	}
	b.RemovePod("pod-next")
	b.RemovePod("pod-b")
	if got := create(b, shared("next")); got != "0-7,10-15;" {
		t.Errorf("one that begins when b has gone: %q", got)
	}
	b.RemovePod("pod-next")
	if got := announce(b, pinnedTo("b", "8")); got == held {
		t.Errorf("b: %q", got)
	}
	b.RemovePod("pod-b")
	b.RemovePod("pod-a")
	if got := tellUpdates(b.Stop("nobody")); got != "" {
		t.Errorf("s is moved while it begins: %q", got)
	}
	u, due := b.Begun("s")
	if got := tellUpdates([]Update{u}); !due || got != "s=0-15" {
		t.Errorf("s has begun: %q, due %t", got, due)
	}
	b.Moving(u)
	if got := announce(b, pinnedTo("b", "4-5")); got != held {
		t.Errorf("b, while s is moved: %q", got)
	}
	u, due = b.Moved(u)
	if got := tellUpdates([]Update{u}); !due || got != "s=0-3,6-15" {
		t.Errorf("s makes room for b: %q, due %t", got, due)
	}
	b.Moving(u)
	if u, due := b.Moved(u); due {
		t.Errorf("s is to be moved again: %v", u)
	}
	if got := create(b, pinnedTo("b", "4-5")); got != "4-5;" {
		t.Errorf("b: %q", got)
	}
	if got := announce(b, shared("s2")); got != "0-3,6-15;" {
		t.Errorf("s2: %q", got)
	}
	again := shared("s2-again")
	again.Pod, again.Name = "pod-s2", "s2"
	create(b, again)
	if got := create(b, pinnedTo("c", "6")); got != "6; s=0-3,7-15 s2-again=0-3,7-15" {
		t.Errorf("c, when s2 has begun in its next life: %q", got)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestContainersThatNeverStart: the runtime does not report that a container could not be started.
// It blocks other containers only for a limited time.
func TestContainersThatNeverStart(t *testing.T) {
	b := newBooks(t, Hold)
	at := time.Unix(1000, 0)
	b.now = func() time.Time { return at }
	announce(b, shared("s"))
	if got := announce(b, pinnedTo("a", "4-5")); !strings.Contains(got, "shared by s, which is just starting") {
		t.Errorf("a: %q", got)
	}
	at = at.Add(settleLimit)
	if got := create(b, pinnedTo("a", "4-5")); got != "4-5; s=0-3,6-15" {
		t.Errorf("a, later: %q", got)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
	if u, due := b.Begun("s"); !due || tellUpdates([]Update{u}) != "s=0-3,6-15" {
		t.Errorf("s starts after all: %v, due %t", u, due)
	}
}

// TestTwoSandboxesOfOnePod: after a reboot, a pod gets a second sandbox while the first still
// exists.
func TestTwoSandboxesOfOnePod(t *testing.T) {
	b := newBooks(t, Hold)
	before, after := pinnedTo("before", "4-5"), pinnedTo("after", "4-5")
	before.UID, after.UID = "u", "u"
	b.Synchronize([]Container{before})
	if got := create(b, after); got != "4-5;" {
		t.Errorf("in the second sandbox: %q", got)
	}
	b.RemovePod(before.Pod)
	if got := create(b, pinnedTo("x", "5")); !strings.Contains(got, "held by after") {
		t.Errorf("another pod: %q", got)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestSandboxesOfWhichNobodySaysThatTheyStop: after a restart, containerd reports the ends of
// containers, but not those of sandboxes that existed before.
func TestSandboxesOfWhichNobodySaysThatTheyStop(t *testing.T) {
	b := newBooks(t, Hold)
	b.Synchronize([]Container{pinnedTo("a", "4-5"), shared("s")}, "pod-a", "pod-s", "pod-e")
	b.Stop("a")
	if got := create(b, pinnedTo("b", "4-5")); !strings.Contains(got, "held by a") {
		t.Errorf("between two lives of a: %q", got)
	}
	b.Remove("a")
	if got := create(b, pinnedTo("b", "4-5")); got != "4-5; s=0-3,6-15" {
		t.Errorf("a is removed: %q", got)
	}
	again := pinnedTo("e", "6-7") // its earlier container had ended before
	create(b, again)
	b.Stop("e")
	b.Remove("e")
	if got := create(b, pinnedTo("d", "6-7")); got != "6-7; s=0-3,8-15" {
		t.Errorf("e is removed: %q", got)
	}
	b.Stop("b")
	b.Remove("b")
	if got := create(b, pinnedTo("c", "4-5")); !strings.Contains(got, "held by b") {
		t.Errorf("b came later, and its sandbox is there: %q", got)
	}
}

// TestSynchronizeWhileContainersBegin: a container that is moved before it has started is moved
// again after that, pinned or not.
func TestSynchronizeWhileContainersBegin(t *testing.T) {
	b := newBooks(t, Hold)
	a, s := pinnedTo("a", "4-5"), shared("s")
	a.Begins, s.Begins = true, true
	if got := tellUpdates(b.Synchronize([]Container{a, s})); got != "a=4-5 s=0-3,6-15" {
		t.Errorf("synchronized: %q", got)
	}
	if u, due := b.Begun("a"); !due || tellUpdates([]Update{u}) != "a=4-5" {
		t.Errorf("a has begun: %v, due %t", u, due)
	}
	b.Begun("s")
	if got := tellUpdates(b.Stop("nobody")); got != "" {
		t.Errorf("nobody: %q", got)
	}
	if got := create(b, pinnedTo("x", "6-7")); got != "6-7; a=4-5 s=0-3,8-15" {
		t.Errorf("the next answer: %q", got)
	}
	if got := tellUpdates(b.Stop("x")); got != "s=0-3,6-15" {
		t.Errorf("the one after it: %q", got)
	}
}

// TestOrphans: after a restart, a runtime may report containers without their sandboxes. Their
// decisions are remembered. Without a remembered decision, no CPUs are taken from a container that
// may be pinned, and a shared one gets no more CPUs.
func TestOrphans(t *testing.T) {
	bound := shared("bound")
	bound.Decision = &placement.ContainerDecision{Name: "bound", Shares: []placement.CPUShare{{NUMA: 1, MilliCPU: 500}}, Bounds: placement.BoundCPUs}
	b := newBooks(t, Hold)
	create(b, pinnedTo("a", "4-5"))
	create(b, bound)
	create(b, shared("s"))
	there := func() (out []Container) {
		for _, h := range b.All() {
			c := h.Container
			c.Now, c.Orphan, c.Decision, c.Name, c.UID = h.Set, true, nil, "", "u-"+c.ID
			out = append(out, c)
		}
		return out
	}
	as := func() string {
		var parts []string
		for _, h := range b.All() {
			parts = append(parts, h.ID+"="+tellSet(h.Set)+map[bool]string{true: " pinned"}[h.Set.Pinned])
		}
		return strings.Join(parts, " ")
	}
	want := "a=4-5 pinned bound=8-15 s=0-3,6-15"
	if got := tellUpdates(b.Synchronize(there())); got != "" || as() != want || len(b.complaints()) != 0 {
		t.Errorf("remembered: moves %q, %s, %v; want %s", got, as(), b.complaints(), want)
	}
	b.Stop("a")
	b.Remove("a")
	if got := create(b, pinnedTo("b", "4-6")); got != "4-6; s=0-3,7-15" {
		t.Errorf("a is removed, and nobody tells of its sandbox: %q", got)
	}

	list := there()
	b = newBooks(t, Hold)
	want = "b=4-6 pinned bound=8-15 pinned s=0-3,7"
	if got := tellUpdates(b.Synchronize(list)); got != "s=0-3,7" || as() != want || len(b.complaints()) != 3 {
		t.Errorf("not remembered: moves %q, %s, %v; want %s", got, as(), b.complaints(), want)
	}
	if got := create(b, pinnedTo("c", "5-7")); !strings.Contains(got, "CPUs 5-6 are held by") {
		t.Errorf("c: %q", got)
	}
	for _, id := range []string{"b", "bound"} {
		b.Stop(id)
		b.Remove(id)
	}
	if got := create(b, pinnedTo("c", "5-7")); got != "5-7; s=0-3,8-15" {
		t.Errorf("b is removed: %q", got)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestContainersOfWhichTheRuntimeDoesNotTell: after its restart, a runtime leaves out a container
// whose state it did not get in time. Such a container keeps its CPUs as long as it has processes.
func TestContainersOfWhichTheRuntimeDoesNotTell(t *testing.T) {
	b := newBooks(t, Hold)
	create(b, pinnedTo("a", "4-5"))
	create(b, shared("s"))
	create(b, pinnedTo("ended", "6"))
	alive := map[string]bool{"a": true, "s": true}
	b.lives = func(id string) bool { return alive[id] }
	other := shared("other")
	other.Now.CPUs = shapes.CPUs("0-15")
	if got := tellUpdates(b.Synchronize([]Container{other}, "pod-a", "pod-s", "pod-ended")); got != "other=0-3,6-15" {
		t.Errorf("synchronized: %q", got)
	}
	if all := b.All(); len(all) != 3 || all[0].Why == "" || all[2].Why == "" {
		t.Errorf("the books: %+v", all)
	}
	if got := create(b, pinnedTo("b", "5")); !strings.Contains(got, "held by a") {
		t.Errorf("on a's CPU: %q", got)
	}
	if got := create(b, pinnedTo("c", "7")); !strings.Contains(got, "shared by s, and the runtime no longer lists that container") {
		t.Errorf("on a CPU of s: %q", got)
	}
	b.RemovePod("pod-a")
	b.RemovePod("pod-s")
	if got := create(b, pinnedTo("b", "5")); !strings.Contains(got, "held by a") {
		t.Errorf("on a's CPU, and its sandbox has stopped: %q", got)
	}
	delete(alive, "s")
	if got := create(b, pinnedTo("c", "7")); got != "7; other=0-3,6,8-15" {
		t.Errorf("s has ended: %q", got)
	}
	delete(alive, "a")
	if got := tellUpdates(b.Stop("c")); got != "other=0-15" {
		t.Errorf("a has ended, and c: %q", got)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestMovesOfAFailedAnswerComeAgain: a runtime may fail after the plugin's answer, and carry out
// nothing of it.
func TestMovesOfAFailedAnswerComeAgain(t *testing.T) {
	b := newBooks(t, Hold)
	create(b, shared("s"))
	if got := announce(b, pinnedTo("a", "4-5")); got != "4-5; s=0-3,6-15" {
		t.Fatal(got)
	}
	if got := announce(b, shared("x")); got != "0-3,6-15; s=0-3,6-15" {
		t.Errorf("%s, want the move of s once more", got)
	}
	b.Begun("x") // which means that the answer was carried out
	if got := announce(b, shared("y")); got != "0-3,6-15;" {
		t.Errorf("%s, want no move: all have arrived", got)
	}
}

// TestRenew: the books continue with another machine and other reserved CPUs. Pinned containers
// stay.
func TestRenew(t *testing.T) {
	b := newBooks(t, Hold)
	at := time.Unix(1000, 0)
	b.now = func() time.Time { return at }
	create(b, shared("s"))
	create(b, pinnedTo("a", "1-2"))
	if got := create(b, pinnedTo("late", "0")); !strings.Contains(got, "which are reserved") {
		t.Fatal(got)
	}
	at = at.Add(time.Minute)
	renew := func(machine, reserved, moves string) {
		t.Helper()
		if err := b.Renew(shapes.Machine(machine), shapes.CPUs(reserved)); err != nil {
			t.Fatal(err)
		}
		due := b.Overdue()
		if got := tellUpdates(due); got != moves {
			t.Errorf("reserved %s: moves %q, want %q", reserved, got, moves)
		}
		for _, u := range due {
			b.Moving(u)
			b.Moved(u)
		}
		if err := b.check(); err != nil {
			t.Error(err)
		}
	}
	renew(twoNodes, "15", "")
	if got := create(b, pinnedTo("late", "0")); got != "0; s=3-15" {
		t.Errorf("a CPU that is reserved no more: %s", got)
	}
	at = at.Add(time.Minute)
	renew(twoNodes+" offline:14", "1,15", "s=3-13,15") // CPU 1 belongs to a, reserved or not
	if got := create(b, pinnedTo("more", "14")); !strings.Contains(got, "which the machine does not have") {
		t.Error(got)
	}
	running := []Container{pinnedTo("a", "1-2"), shared("s")}
	running[0].Now.CPUs, running[1].Now.CPUs = shapes.CPUs("1-2"), shapes.CPUs("3-13,15")
	if got := tellUpdates(b.Synchronize(running, "pod-a", "pod-s")); got != "s=0,3-13,15" {
		t.Errorf("the agent starts again: moves %q; want none of a", got)
	}
	running[0].Now.CPUs = shapes.CPUs("3-4")
	if got := tellUpdates(b.Synchronize(running, "pod-a", "pod-s")); !strings.Contains(got, "a=") {
		t.Errorf("a runs elsewhere: moves %q, want it among the shared", got)
	}
	if err := b.Renew(shapes.Machine(twoNodes), shapes.CPUs("")); err == nil {
		t.Error("nothing is reserved, and that passes")
	}
}

// TestClaimsLapse: even if it is unknown whether a sandbox is gone, CPUs are kept for a waiting
// container only as long as it is tried again.
func TestClaimsLapse(t *testing.T) {
	b := newBooks(t, Hold)
	at := time.Unix(1000, 0)
	b.now = func() time.Time { return at }
	b.Synchronize(nil, "pod-a")
	announce(b, shared("s"))
	if got := create(b, pinnedTo("a", "4-5")); !strings.Contains(got, "which is just starting") {
		t.Fatal(got)
	}
	if got := announce(b, shared("x")); got != "0-3,6-15;" {
		t.Errorf("%s, want CPUs 4-5 kept for a", got)
	}
	at = at.Add(heldFor + 1)
	if got := announce(b, shared("y")); !strings.HasPrefix(got, "0-15;") || len(b.claims) > 0 {
		t.Errorf("%s with %d claims, want what nobody tries any more forgotten", got, len(b.claims))
	}
}
