package enforce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// sized returns a decision for container c with exclusive CPUs, and gib GiB of memory on NUMA node
// 0.
func sized(list string, gib uint64) placement.ContainerDecision {
	return placement.ContainerDecision{Name: "c", Hint: placement.Hint{Any: true}, CPUs: shapes.CPUs(list), Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: gib << 30}}}
}

// resizable returns a container of a Guaranteed pod.
func resizable(t testing.TB, id, list string, gib uint64) Container {
	d := sized(list, gib)
	return Container{ID: id, Pod: "pod-" + id, UID: "uid-" + id, Short: "c", Name: id, Decision: &d, decides: true}
}

func decide(t testing.TB, b *Books, id string, generation uint64, list string, gib uint64) bool {
	t.Helper()
	taken := b.Decide("uid-"+id, Decided{generation, []placement.ContainerDecision{sized(list, gib)}})
	if err := b.check(); err != nil {
		t.Fatal(err)
	}
	return taken
}

// sendAll carries out the moves that are due, one after the other, and returns them as a text.
func sendAll(b *Books) (told string) {
	for range 20 {
		due := b.Overdue()
		if len(due) == 0 {
			return strings.TrimSpace(told)
		}
		for _, u := range due {
			told += " " + tellUpdates([]Update{u})
			b.Moving(u)
			for next := true; next; {
				u, next = b.Moved(u)
			}
		}
	}
	return told + " without end"
}

func booked(t testing.TB, b *Books, id string) Booked {
	t.Helper()
	for _, c := range b.All() {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("%s is not in the books", id)
	return Booked{}
}

func found(t testing.TB, b *Books, id, list string, limit uint64) {
	t.Helper()
	b.Found(id, Found{Set: Set{CPUs: shapes.CPUs(list)}, Turn: booked(t, b, id).Turn, Limit: limit})
	if err := b.check(); err != nil {
		t.Fatal(err)
	}
}

func wantText(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestResizeStory: a container grows when shared containers have left the CPUs. CPUs that it leaves
// are free when its cgroup shows this.
func TestResizeStory(t *testing.T) {
	b := newBooks(t, Hold)
	wantText(t, "s begins", create(b, shared("s")), "0-15;")
	wantText(t, "a begins", create(b, resizable(t, "a", "1-2", 1)), "1-2; s=0,3-15")
	if !decide(t, b, "a", 2, "1-4", 1) {
		t.Fatal("a newer decision is ignored")
	}
	if decide(t, b, "a", 2, "1-6", 1) || decide(t, b, "a", 1, "1-6", 1) || decide(t, b, "a", 0, "1-6", 1) {
		t.Error("an older decision is taken")
	}
	wantText(t, "a grows", sendAll(b), "s=0,5-15 a=1-4")
	found(t, b, "a", "1-4", 0)

	decide(t, b, "a", 3, "2", 1)
	wantText(t, "a shrinks", sendAll(b), "a=2")
	next := resizable(t, "b", "3-4", 1)
	if text := announce(b, next); !strings.Contains(text, "held by a") {
		t.Errorf("b begins before the cgroup was read: %s", text)
	}
	b.Found("a", Found{Set: Set{CPUs: shapes.CPUs("2")}, Turn: booked(t, b, "a").Turn - 1})
	found(t, b, "a", "1-4", 0)
	if c := booked(t, b, "a"); c.Leaving != shapes.CPUs("1,3-4") || c.Generation != 3 || !c.Refits {
		t.Errorf("an old look frees CPUs: %+v", c)
	}
	found(t, b, "a", "2", 0)
	wantText(t, "a has left", sendAll(b), "s=0-1,3-15")
	wantText(t, "b begins", create(b, next), "3-4; s=0-1,5-15")

	decide(t, b, "a", 4, "2-3", 1)
	wantText(t, "b is in the way", sendAll(b), "")
	if why := booked(t, b, "a").Why; !strings.Contains(why, "CPUs 3 are held by b") {
		t.Errorf("told %q", why)
	}
	b.Stop("b")
	b.RemovePod("pod-b")
	wantText(t, "b has left", sendAll(b), "s=0-1,4-15 a=2-3")
}

// TestResizeOfAContainerThatDoesNotRun: it starts with the newest decision.
func TestResizeOfAContainerThatDoesNotRun(t *testing.T) {
	b := newBooks(t, Hold)
	create(b, resizable(t, "a", "1-4", 2))
	b.Stop("a")
	decide(t, b, "a", 2, "1-2", 1)
	c := booked(t, b, "a")
	if c.Set.CPUs != shapes.CPUs("1-2") || !c.Leaving.IsEmpty() || c.Memory[0].Bytes != 1<<30 {
		t.Errorf("%+v, want CPUs 1-2 and 1 GiB", c)
	}
	again := resizable(t, "a2", "1-4", 2)
	again.Pod, again.UID, again.Name = "pod-a", "uid-a", "a"
	wantText(t, "it begins again", create(b, again), "1-2;")
	b.Stop("a2")
	again.ID, again.asks = "a3", amounts{shares: 4096, limit: 1 << 30}
	if text := announce(b, again); !strings.Contains(text, "the kubelet has allocated more to it than the scheduler has decided") {
		t.Errorf("it begins at the first try: %s", text)
	}
	wantText(t, "it begins with less CPU time than the kubelet asks for", create(b, again), "1-2;")
	if got := b.trimmed("a3"); got != (amounts{shares: 2048}) {
		t.Errorf("it begins with %+v, want 2048 shares", got)
	}
	decide(t, b, "a", 3, "1-4", 1)
	due := b.Overdue()
	if len(due) != 1 || due[0].gets != (amounts{shares: 4096}) || due[0].Set.CPUs != shapes.CPUs("1-4") {
		t.Errorf("once it is decided: %+v", due)
	}
	b.Moving(due[0])
	b.Moved(due[0])
	decide(t, b, "a", 4, "1-2", 1)
	sendAll(b)
	found(t, b, "a3", "1-2", 0)
	b.Stop("a3")
	again.ID, again.asks = "a4", amounts{shares: 2048, limit: 1<<30 + 1}
	announce(b, again)
	wantText(t, "it begins with less memory", create(b, again), "1-2;")
	if got := b.trimmed("a4"); got != (amounts{limit: 1 << 30}) {
		t.Errorf("it begins with %+v, want 1 GiB", got)
	}
	b.Stop("a4")
	again.ID, again.asks.limit = "a5", 1<<30
	wantText(t, "it begins as decided", create(b, again), "1-2;")
}

// TestRestartContainer: to resize a container, the kubelet restarts it at once (resizePolicy), and
// does not update the resources with which it has started.
func TestRestartContainer(t *testing.T) {
	const gib = 1 << 30
	var b *Books
	old := resizable(t, "a", "1-2", 1)
	restart := func(id string, gets amounts) Container {
		b.Stop("a")
		again := old
		again.ID, again.asks = id, gets
		return again
	}
	for name, c := range map[string]struct {
		play    func()
		on      string
		trimmed amounts
		free    string // CPUs that a container of another pod can get
	}{
		"it grows, decided in time": {func() {
			again := restart("a2", amounts{4096, 2 * gib})
			announce(b, again)
			decide(t, b, "a", 2, "1-4", 2)
			create(b, again)
		}, "1-4", amounts{}, "5"},
		"it grows, and is not decided": {func() {
			again := restart("a2", amounts{4096, 2 * gib})
			announce(b, again)
			create(b, again)
		}, "1-2", amounts{2048, gib}, "3"},
		"it grows, decided late": {func() {
			again := restart("a2", amounts{4096, 2 * gib})
			announce(b, again)
			create(b, again)
			decide(t, b, "a", 2, "1-4", 2)
			due := b.Overdue()
			if len(due) != 1 || due[0].gets != (amounts{4096, 2 * gib}) {
				t.Errorf("decided late: %+v, want that it gets the rest", due)
			}
			b.Moving(due[0])
			b.Moved(due[0])
		}, "1-4", amounts{2048, gib}, "5"},
		"it shrinks, and is not decided": {func() { create(b, restart("a2", amounts{1024, gib / 2})) }, "1-2", amounts{}, "3"},
		"it shrinks, decided in time": {func() {
			again := restart("a2", amounts{1024, gib / 2})
			decide(t, b, "a", 2, "2", 1)
			create(b, again)
		}, "2", amounts{}, "1"},
		"it shrinks, decided before it ends": {func() {
			decide(t, b, "a", 2, "2", 1)
			create(b, restart("a2", amounts{1024, gib / 2}))
		}, "2", amounts{}, "1"},
	} {
		b = newBooks(t, Hold)
		create(b, old)
		c.play()
		if got := booked(t, b, "a2"); got.Set.CPUs != shapes.CPUs(c.on) || b.trimmed("a2") != c.trimmed {
			t.Errorf("%s: on %s, trimmed to %+v; want %s and %+v", name, got.Set.CPUs, b.trimmed("a2"), c.on, c.trimmed)
		}
		wantText(t, name+": another pod begins", create(b, resizable(t, "x", c.free, 1)), c.free+";")
		if err := b.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAmountsAreCarried: the kubelet sends an update only once. If a limit was raised again
// meanwhile, the agent lowers it when the container uses less.
func TestAmountsAreCarried(t *testing.T) {
	const gib = 1 << 30
	b := newBooks(t, Hold)
	a := resizable(t, "a", "1-2", 1)
	a.asks = amounts{2048, gib}
	create(b, a)
	at := time.Now()
	b.now = func() time.Time { return at }
	decide(t, b, "a", 2, "1-2", 2)
	carry := func(what string, want ...amounts) {
		t.Helper()
		at = at.Add(retryAfter)
		var got []amounts
		for _, u := range b.Overdue() {
			got = append(got, u.gets)
			b.Moving(u)
			b.Moved(u)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: it gets %+v, want %+v", what, got, want)
		}
	}
	look := func(limit, used uint64) {
		b.Found("a", Found{Set: Set{CPUs: shapes.CPUs("1-2")}, Turn: booked(t, b, "a").Turn, Limit: limit, Used: used})
	}
	carry("it grows", amounts{limit: 2 * gib})
	look(2*gib, gib/4)
	b.Updated("a", amounts{2048, gib}) // the kubelet shrinks it before the decision arrives
	carry("the decision that is known", amounts{limit: 2 * gib})
	decide(t, b, "a", 3, "1-2", 1)
	carry("what it uses is not known", amounts{})
	look(2*gib, gib)
	carry("it uses too much")
	look(2*gib, gib-1)
	carry("it uses less", amounts{limit: gib})
	if c := booked(t, b, "a"); bytesOf(c.Memory) != 2*gib {
		t.Errorf("%d bytes are free before the limit is read", 2*gib-bytesOf(c.Memory))
	}
	look(gib, gib/4)
	if c := booked(t, b, "a"); bytesOf(c.Memory) != gib {
		t.Errorf("it has %d bytes, want 1 GiB", bytesOf(c.Memory))
	}
	carry("all is as it was decided")
	b.Updated("a", amounts{4096, gib})
	decide(t, b, "a", 4, "1", 1)
	if due := b.Overdue(); len(due) != 1 || due[0].gets != (amounts{shares: 1024}) {
		t.Errorf("with fewer CPUs it gets %+v, want their shares", due)
	}
}

// TestUpdatesWaitForTheirDecision: the kubelet changes memory and CPUs one after the other.
func TestUpdatesWaitForTheirDecision(t *testing.T) {
	const gib = 1 << 30
	b := newBooks(t, Hold)
	create(b, shared("s"))
	create(b, resizable(t, "a", "1-2", 1))
	now := amounts{2048, gib}
	allowed := func(what string, wants amounts, want bool) {
		t.Helper()
		if err := b.allows("a", wants, now); (err == nil) != want {
			t.Errorf("%s: %v, want allowed %t", what, err, want)
		}
	}
	allowed("the same", now, true)
	allowed("nothing", amounts{}, true)
	allowed("more memory", amounts{2048, 2 * gib}, false)
	allowed("more CPUs", amounts{4096, gib}, false)
	allowed("fewer CPUs", amounts{1024, gib}, true)
	decide(t, b, "a", 2, "1-4", 2)
	allowed("the memory that was decided", amounts{2048, 2 * gib}, true)
	allowed("more than that", amounts{2048, 3 * gib}, false)
	set, moves, known, err := b.Update("a")
	if err != nil || !known || set.CPUs != shapes.CPUs("1-4") || tellUpdates(moves) != "s=0,5-15" {
		t.Errorf("the reply moves it to %s and %s, %v", set.CPUs, tellUpdates(moves), err)
	}
	now = amounts{2048, 2 * gib}
	allowed("then the CPUs", amounts{4096, 2 * gib}, true)
	b.Updated("a", amounts{})
	b.now = func() time.Time { return time.Now().Add(time.Hour) }
	wantText(t, "after the reply", sendAll(b), "")

	decide(t, b, "a", 3, "1", 1)
	found(t, b, "a", "1-4", 2*gib)
	if c := booked(t, b, "a"); bytesOf(c.Memory) != 2*gib {
		t.Errorf("%d bytes are free before the limit is low", 2*gib-bytesOf(c.Memory))
	}
	sendAll(b)
	found(t, b, "a", "1", gib)
	if c := booked(t, b, "a"); bytesOf(c.Memory) != gib || !c.Leaving.IsEmpty() {
		t.Errorf("%+v, want 1 GiB and nothing to leave", c)
	}
	create(b, Container{ID: "x", Pod: "pod-x", UID: "uid-x", Short: "c", Name: "x", Decision: &placement.ContainerDecision{Name: "c", CPUs: shapes.CPUs("8")}})
	if err := b.allows("x", amounts{1, 1}, amounts{2, 2}); err != nil {
		t.Errorf("limits of a pod that is not Guaranteed: %v", err)
	}
	if err := b.allows("s", amounts{1, 1}, amounts{2, 2}); err != nil {
		t.Errorf("a pod without a decision: %v", err)
	}
}

// TestUpdatesWaitForContainersThatBegin: a shared container that is just starting cannot be moved,
// so that the kubelet has to try again.
func TestUpdatesWaitForContainersThatBegin(t *testing.T) {
	b := newBooks(t, Hold)
	create(b, resizable(t, "a", "1-2", 1))
	announce(b, shared("s"))
	decide(t, b, "a", 2, "1-3", 1)
	var held *HeldError
	if set, _, _, err := b.Update("a"); !errors.As(err, &held) || set.CPUs != shapes.CPUs("1-2") {
		t.Errorf("moved to %s, %v", set.CPUs, err)
	}
	if u, due := b.Begun("s"); !due || u.Set.CPUs != shapes.CPUs("0,4-15") {
		t.Errorf("s begins on %s, %t", u.Set.CPUs, due)
	}
	wantText(t, "once it has begun", sendAll(b), "s=0,4-15 a=1-3")
}

// TestUpdatesOfSharedContainersWaitForTheirMove: an update during a move would leave a shared
// container on CPUs that it must leave.
func TestUpdatesOfSharedContainersWaitForTheirMove(t *testing.T) {
	for _, failed := range []bool{false, true} {
		b := newBooks(t, Hold)
		create(b, shared("s"))
		create(b, resizable(t, "a", "1-2", 1))
		move := Update{ID: "s", Set: Set{CPUs: shapes.CPUs("0,5-15")}}
		decide(t, b, "a", 2, "1-4", 1)
		b.Moving(move)
		if failed {
			b.Failed("s")
		}
		var held *HeldError
		if set, _, _, err := b.Update("s"); !errors.As(err, &held) {
			t.Errorf("failed %t: s runs on %s, %v: want it to wait", failed, set.CPUs, err)
		}
		b.Moved(move)
		sendAll(b)
		if set, _, _, err := b.Update("s"); err != nil || set.CPUs != shapes.CPUs("0,5-15") {
			t.Errorf("failed %t: then s runs on %s, %v", failed, set.CPUs, err)
		}
	}
}

// TestWhatIsFreeComesToSettledContainers: while a shared container is being moved, other CPUs
// become free. It must not count as moved because of them.
func TestWhatIsFreeComesToSettledContainers(t *testing.T) {
	b := newBooks(t, Hold)
	create(b, shared("s"))
	create(b, resizable(t, "a", "1-4", 1))
	create(b, resizable(t, "x", "5", 1))
	decide(t, b, "a", 2, "1", 1)
	sendAll(b)
	b.Stop("x")
	b.RemovePod("pod-x")
	move := Update{ID: "s", Set: Set{CPUs: shapes.CPUs("0,5-15")}}
	b.Moving(move)
	found(t, b, "a", "1", 0)
	if text := announce(b, resizable(t, "c", "5", 1)); !strings.Contains(text, "shared by s") {
		t.Errorf("c begins on CPUs to which s is on its way: %s", text)
	}
	if u, due := b.Moved(move); !due || u.Set.CPUs != shapes.CPUs("0,2-4,6-15") {
		t.Errorf("then s moves to %s, %t", u.Set.CPUs, due)
	}
}

// TestResizesOutliveTheAgent: decisions are stored outside the books. A container keeps its earlier
// resources until its cgroup is read.
func TestResizesOutliveTheAgent(t *testing.T) {
	b := newBooks(t, Hold)
	decide(t, b, "a", 3, "1", 1)
	a := resizable(t, "a", "1-2", 4) // according to its Binding
	a.Now, a.asks = Set{CPUs: shapes.CPUs("1-4")}, amounts{1024, 3 << 30}
	wantText(t, "learns what runs", tellUpdates(b.Synchronize([]Container{a})), "a=1")
	c := booked(t, b, "a")
	if c.Leaving != shapes.CPUs("2-4") || bytesOf(c.Memory) != 3<<30 || c.Generation != 3 {
		t.Errorf("%+v, want CPUs 2-4 to be left and 3 GiB of memory", c)
	}
	if text := announce(b, resizable(t, "b", "3", 1)); !strings.Contains(text, "held by a") {
		t.Errorf("b begins: %s", text)
	}
	found(t, b, "a", "1", 1<<30)
	wantText(t, "b begins", create(b, resizable(t, "b", "3", 1)), "3;")
	if left := len(b.Prune(func(string) bool { return false })); left != 1 {
		t.Errorf("%d decisions are left, want that of a container that runs", left)
	}
	b.RemovePod("pod-a")
	if left := len(b.Prune(func(uid string) bool { return uid == "uid-a" })); left != 1 {
		t.Errorf("%d decisions are left, want that of a pod that the API has", left)
	}
	if left := len(b.Prune(func(string) bool { return false })); left != 0 {
		t.Errorf("%d decisions are left", left)
	}
	for i := range 2 * maxDecided {
		decide(t, b, fmt.Sprint("x", i), 2, "1", 1)
	}
	if left := len(b.Prune(func(string) bool { return true })); left != maxDecided {
		t.Errorf("%d decisions are remembered, want %d", left, maxDecided)
	}
}

// TestUpdatesThatNobodyRefused: the kubelet raised the limit while no agent ran.
func TestUpdatesThatNobodyRefused(t *testing.T) {
	b := newBooks(t, Hold)
	a := resizable(t, "a", "1-2", 1)
	a.Now, a.asks = Set{CPUs: shapes.CPUs("1-2")}, amounts{2048, 3 << 30}
	b.Synchronize([]Container{a})
	if c := booked(t, b, "a"); bytesOf(c.Memory) != 3<<30 || !c.Refits {
		t.Errorf("%+v, want 3 GiB to be reported", c)
	}
	found(t, b, "a", "1-2", 1<<30)
	if c := booked(t, b, "a"); bytesOf(c.Memory) != 1<<30 {
		t.Errorf("%+v, want 1 GiB", c)
	}
}

// TestResizesNeverOverlap runs at random: a scheduler that assigns all resources that no report
// shows as used, a runtime that is late and loses moves, and an agent that restarts.
func TestResizesNeverOverlap(t *testing.T) {
	moved, shed := 0, 0
	for seed := range uint64(60) {
		r := &resizes{t: t, rng: rand.New(rand.NewPCG(seed, 62)), decided: map[string]Decided{}, bound: map[string]Decided{}, runs: map[string]topology.CPUSet{}}
		r.restart()
		for range 300 {
			r.step()
			r.apart(seed)
		}
		moved, shed = moved+r.moved, shed+r.shed
	}
	if moved < 200 || shed < 100 {
		t.Errorf("%d moves, %d sets of CPUs that were left: the test sees too little", moved, shed)
	}
}

// resizes has the scheduler's decisions and the CPUs of running containers, by pod.
type resizes struct {
	t           *testing.T
	rng         *rand.Rand
	b           *Books
	decided     map[string]Decided
	bound       map[string]Decided
	runs        map[string]topology.CPUSet
	moved, shed int
}

var resizedPods = []string{"a", "b", "c"}

func (r *resizes) container(uid string) Container {
	c := Container{ID: uid, Pod: "pod-" + uid, UID: "uid-" + uid, Short: "c", Name: uid, decides: true}
	if uid == "s" {
		return shared("s")
	}
	c.Decision = &r.bound[uid].Containers[0]
	return c
}

// restart starts a new agent, with the decisions that were stored.
func (r *resizes) restart() {
	r.b = newBooks(r.t, Hold)
	for _, uid := range resizedPods {
		r.b.Decide("uid-"+uid, r.decided[uid])
	}
	var running []Container
	for _, uid := range append([]string{"s"}, resizedPods...) {
		if on, ok := r.runs[uid]; ok {
			c := r.container(uid)
			c.Now.CPUs = on
			running = append(running, c)
		}
	}
	r.carry(r.b.Synchronize(running), true)
}

// carry carries out moves in their order.
func (r *resizes) carry(us []Update, surely bool) {
	for _, u := range us {
		if surely || r.rng.IntN(4) > 0 {
			r.runs[u.ID] = u.Set.CPUs
		}
	}
}

// shown returns the CPUs that a report shows for a pod.
func (r *resizes) shown(uid string) (out topology.CPUSet) {
	for _, c := range r.b.All() {
		if c.ID == uid {
			out = c.Set.CPUs.Or(&c.Leaving)
		}
	}
	on := r.runs[uid]
	return out.Or(&on)
}

func (r *resizes) step() {
	uid := resizedPods[r.rng.IntN(len(resizedPods))]
	_, runs := r.runs[uid]
	switch r.rng.IntN(8) {
	case 0, 1: // the scheduler decides
		free := shapes.CPUs("1-7")
		for _, o := range resizedPods {
			if o == uid {
				continue
			}
			if d, ok := r.decided[o]; ok {
				free = free.AndNot(&d.Containers[0].CPUs)
			}
			on := r.shown(o)
			free = free.AndNot(&on)
		}
		var got topology.CPUSet
		for cpu := range free.All() {
			if r.rng.IntN(2) == 0 {
				got.Add(cpu)
			}
		}
		if got.IsEmpty() {
			return
		}
		d := Decided{r.decided[uid].Generation + 1, []placement.ContainerDecision{{Name: "c", CPUs: got}}}
		r.decided[uid] = d
		if d.Generation == 1 {
			r.bound[uid] = d
		} else if r.rng.IntN(3) > 0 {
			r.b.Decide("uid-"+uid, d)
		}
	case 2:
		r.b.Decide("uid-"+uid, r.decided[uid])
	case 3: // a container starts
		if r.rng.IntN(3) == 0 {
			uid = "s"
		}
		if _, there := r.runs[uid]; there || uid != "s" && r.decided[uid].Generation == 0 {
			return
		}
		if set, moves, err := r.b.Create(r.container(uid)); err == nil {
			r.carry(moves, true)
			r.runs[uid] = set.CPUs
			if u, due := r.b.Begun(uid); due {
				r.carry([]Update{u}, true)
				r.b.Moving(u)
				r.b.Moved(u)
			}
		}
	case 4: // moves that are due
		for _, u := range r.b.Overdue() {
			r.b.Moving(u)
			if r.rng.IntN(4) == 0 {
				r.b.Failed(u.ID)
				continue
			}
			r.carry([]Update{u}, u.ID == "s")
			r.moved++
			r.b.Moved(u)
		}
	case 5: // an update of the kubelet, whose answer may be lost
		if set, moves, known, err := r.b.Update(uid); known && err == nil {
			r.carry(moves, true)
			if r.rng.IntN(3) > 0 {
				r.runs[uid] = set.CPUs
				r.b.Updated(uid, amounts{})
			}
		}
	case 6:
		if runs {
			before := booked(r.t, r.b, uid).Leaving
			r.b.Found(uid, Found{Set: Set{CPUs: r.runs[uid]}, Turn: booked(r.t, r.b, uid).Turn})
			if after := booked(r.t, r.b, uid).Leaving; before != after {
				r.shed++
			}
		}
	case 7:
		switch {
		case r.rng.IntN(10) == 0:
			r.restart()
		case runs && r.rng.IntN(3) == 0:
			delete(r.runs, uid)
			r.carry(r.b.Stop(uid), true)
		}
	}
	if r.rng.IntN(3) == 0 {
		r.b.now = func() time.Time { return time.Now().Add(time.Hour) }
	}
}

func (r *resizes) apart(seed uint64) {
	r.t.Helper()
	if err := r.b.check(); err != nil {
		r.t.Fatalf("seed %d: %v", seed, err)
	}
	all := append([]string{"s"}, resizedPods...)
	for i, x := range all {
		for _, y := range all[:i] {
			on, other := r.runs[x], r.runs[y]
			if both := on.And(&other); !both.IsEmpty() {
				r.t.Fatalf("seed %d: %s runs on %s and %s on %s", seed, x, on, y, other)
			}
		}
	}
}

// TestNRIResize: the genuine adaptation asks before an update, and the runtime gets the refusal.
func TestNRIResize(t *testing.T) {
	const gib = 1 << 30
	r := newRuntime(t)
	p := NewPlugin(newBooks(t, Hold), t.Logf)
	p.NRIVersion = "v0.12.1"
	changed := make(chan struct{}, 1)
	p.Changed = func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	stop := r.connect(p)
	defer stop()
	d := sized("1-2", 1)
	pod := r.pod("a", nil, &d)
	if err := errors.Join(r.create(r.pod("s", nil, nil), "c"), r.create(pod, "c")); err != nil {
		t.Fatal(err)
	}
	r.want("a=1-2", "s=0,3-15")
	update := func(shares uint64, limit int64) error {
		b := r.nri.BlockPluginSync()
		defer b.Unblock()
		c := r.ctrs["ctr-a"]
		answer, err := r.nri.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: pod, Container: c,
			LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(shares)}, Memory: &api.LinuxMemory{Limit: api.Int64(limit)}}})
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.apply(answer.GetUpdate())
		c.Linux.Resources.Cpu.Shares, c.Linux.Resources.Memory = api.UInt64(shares), &api.LinuxMemory{Limit: api.Int64(limit)}
		r.mu.Unlock()
		return r.nri.PostUpdateContainer(t.Context(), &api.PostUpdateContainerRequest{Pod: pod, Container: c})
	}
	if err := update(2048, gib); err != nil {
		t.Errorf("the same amounts: %v", err)
	}
	if err := update(2048, 2*gib); err == nil || !strings.Contains(err.Error(), "until the scheduler has decided") {
		t.Errorf("more memory: %v", err)
	}
	grown := sized("1-4", 2)
	p.Decide("uid-a", Decided{2, []placement.ContainerDecision{grown}})
	for s := p.Sight(); !s.Containers[0].Settled || s.Containers[0].Set.CPUs != grown.CPUs || s.Containers[0].Generation != 2; s = p.Sight() {
		select { // the moves are in flight
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("it does not move: %+v", s)
		}
	}
	if err := errors.Join(update(2048, 2*gib), update(4096, 2*gib)); err != nil {
		t.Errorf("as decided: %v", err)
	}
	r.mu.Lock()
	r.want("a=1-4", "s=0,5-15")
	r.mu.Unlock()

	small := wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Authority: placement.AuthorityBerth, Generation: 3,
		Decision: placement.Decision{UID: "uid-a", Containers: []placement.ContainerDecision{sized("1", 1)}}}
	text, err := wire.WritePlacement(&small)
	if err != nil {
		t.Fatal(err)
	}
	r.stopPod(pod)
	again := r.pod("a", map[string]string{wire.PlacementAnnotation: text}, nil)
	if err := r.create(again, "c"); err != nil {
		t.Fatal(err)
	}
	r.want("a=1", "s=0,2-15")
}
