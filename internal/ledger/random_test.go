package ledger

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

var runs = flag.Int("ledger.runs", 75, "random histories of one node")

// history is the real state of one node. Its kubelet learns about changes late, its agent reports
// late, and a scheduler that learns about changes late has only the ledger.
type history struct {
	t    *testing.T
	rng  *rand.Rand
	k    *kubelet
	n    *Node
	next int
	now  time.Time

	// log has the writes to the API server. The kubelet and the scheduler have read up to these
	// indexes.
	log             []write
	kubeletAt, seen int
	// reports are in flight.
	reports []*Report

	alive    []string                      // admitted and not told to end
	ending   []string                      // told to end, still running
	requests map[string]*placement.Request // of all pods
	promised map[string]Promise            // the promises of bound pods
	bound    map[string]int64              // turn
	foreign  map[string]bool               // bound by others
	// contended pods were bound while the node had another pod that the scheduler did not know.
	contended map[string]bool
	// refused pods were contended, and the kubelet refused them.
	refused map[string]bool
	// old pods were bound before the scheduler started. It may not know which pods were in flight
	// with them.
	old map[string]bool
	// In deaf histories, containers stop before the scheduler learns about the deletion. late pods
	// were bound before the scheduler knew a deletion.
	deaf bool
	late map[string]bool
	// created is the second of each pod's creation. second is the current one.
	created map[string]int64
	second  int64
	// deletionHeard is the length of the log when the scheduler learned about a deletion.
	deletionHeard map[string]int
	kinds         map[string]int // steps that happened
	// few means that pods have one of few requests, and that many are created in the same second.
	few bool
	// waving means that some pods are reserved in waves.
	waving bool
	// crowded means that most pods are promised no CPUs.
	crowded bool
	// resizing means that bound pods are resized. wants has the requests in the API. A kubelet that
	// has admitted a pod keeps its resources. heard are the pods whose resize the scheduler has
	// been shown.
	resizing bool
	wants    map[string]*placement.Request
	heard    map[string]bool
	trace    []string
}

type write struct {
	verb string // bind, resize, delete, gone
	uid  string
}

func newHistory(t *testing.T, seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0",
		TopologyManagerPolicy: []string{"none", "best-effort", "restricted", "single-numa-node"}[rng.IntN(4)],
		TopologyManagerScope:  []string{"container", "pod"}[rng.IntN(2)]}
	if rng.IntN(2) == 0 && cfg.TopologyManagerPolicy != "best-effort" { // which could make memory groups unusable
		cfg.MemoryManagerPolicy = "Static"
		cfg.ReservedMemory = []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}}
	}
	machine := []string{twoSockets, "package:1 numa:4 core:2 pu:2 mem:4Gi", "package:2 numa:2 core:3 pu:1 mem:4Gi"}[rng.IntN(3)]
	h := &history{t: t, rng: rng, k: newKubelet(t, model(t, machine, cfg)), now: time.Unix(0, 0),
		requests: map[string]*placement.Request{}, promised: map[string]Promise{}, bound: map[string]int64{},
		foreign: map[string]bool{}, contended: map[string]bool{}, refused: map[string]bool{}, old: map[string]bool{}, created: map[string]int64{}, deletionHeard: map[string]int{}, kinds: map[string]int{},
		deaf: rng.IntN(4) == 0, waving: seed%4 == 3, crowded: seed%8 == 5, late: map[string]bool{},
		resizing: seed%8 == 2, wants: map[string]*placement.Request{}, heard: map[string]bool{}}
	h.n = new(Ledger).Open(nil)
	h.n.Accept(h.k.report())
	return h
}

func (h *history) request() *placement.Request {
	h.next++
	r := &placement.Request{UID: fmt.Sprintf("p%03d", h.next), Guaranteed: true}
	if h.few || h.rng.IntN(4) == 0 { // a shape that other pods have, too
		r.Containers = cpus("", 1+h.rng.Int64N(2)).Containers
	} else {
		h.containers(r)
	}
	h.requests[r.UID] = r
	if h.rng.IntN(3) == 0 && !(h.few && h.rng.IntN(4) > 0) {
		h.second++
	}
	h.created[r.UID] = h.second
	return r
}

func (h *history) containers(r *placement.Request) {
	container := func(name string, kind placement.ContainerKind) {
		r.Containers = append(r.Containers, placement.ContainerRequest{Name: name, Kind: kind,
			MilliCPU: int64(1+h.rng.IntN(5)) * 1000,
			Memory:   []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(1+h.rng.IntN(12)) << 28}}})
	}
	if h.rng.IntN(6) == 0 {
		container("init", placement.Init)
	}
	for i := range 1 + h.rng.IntN(2) {
		container(fmt.Sprint("c", i), placement.App)
	}
}

// fail ends the test and prints the history.
func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	for _, line := range h.trace {
		h.t.Log(line)
	}
	h.t.Fatalf(format, args...)
}

// step carries out a random event.
func (h *history) step() {
	steps := []struct {
		name string
		do   func()
	}{
		{"place", h.place}, {"place", h.place}, {"reserve", func() { h.reserveOne(h.request()) }}, {"post", h.postOne},
		{"forget", h.forgetOne}, {"delete", h.deleteOne}, {"end", h.endOne}, {"kubelet", h.kubeletReads}, {"kubelet", h.kubeletReads},
		{"scheduler", h.schedulerReads}, {"scheduler", h.schedulerReads}, {"report", h.reportOne}, {"hear", h.hearOne},
		{"hear", h.hearOne}, {"sweep", h.k.ReleaseEnded}, {"start", h.startOne}, {"restart", h.restart}, {"trial", h.trial}, {"foreign", h.foreignOne},
		{"relist", h.relist}, {"relist", h.relist}, {"waves", h.waves}, {"resize", h.resizeOne},
	}
	s := steps[h.rng.IntN(len(steps))]
	if (s.name == "restart" || s.name == "foreign") && h.rng.IntN(6) > 0 {
		return
	}
	h.kinds[s.name]++
	logged, read, heard, seq := len(h.log), h.seen, h.kubeletAt, h.n.outlook.facts.report.Sequence
	defer func() {
		h.trace = append(h.trace, fmt.Sprintf("%s: wrote %v; scheduler read %v; kubelet read %v; report %d to %d of %d; %+v",
			s.name, h.log[logged:], h.log[read:h.seen], h.log[heard:h.kubeletAt], seq, h.n.outlook.facts.report.Sequence, h.k.seq, h.n.View().Census()))
	}()
	s.do()
	if err := h.n.View().Check(); err != nil {
		h.fail("after %s: %v", s.name, err)
	}
}

func (h *history) place() {
	if r := h.request(); h.reserveOne(r) {
		h.postNamed(r.UID)
	}
}

func (h *history) reserveOne(r *placement.Request) bool {
	var d placement.Decision
	a := h.n.Reserve(&Candidate{Request: r, Created: h.created[r.UID], Loose: h.crowded && h.rng.IntN(3) > 0}, &d)
	return a.OK()
}

func (h *history) reserved() []string {
	var out []string
	for _, p := range h.n.outlook.facts.pods.reserved {
		out = append(out, p.uid)
	}
	return out
}

func (h *history) postOne() {
	if list := h.reserved(); len(list) > 0 {
		h.postNamed(list[h.rng.IntN(len(list))])
	}
}

// waves reserves some pods of one second, each in the wave of the previous pod or in the next wave.
func (h *history) waves() {
	wave := h.n.outlook.facts.wave()
	if wave > 0 || !h.waving {
		return
	}
	for range 2 + h.rng.IntN(3) {
		r := h.request()
		h.created[r.UID] = h.second
		c := &Candidate{Request: r, Created: h.second, Wave: max(1, wave+h.rng.IntN(2)), Loose: h.rng.IntN(2) == 0}
		var d placement.Decision
		if a := h.n.Reserve(c, &d); a.OK() {
			wave = c.Wave
		}
	}
}

func (h *history) postNamed(uid string) {
	var d placement.Decision
	due := h.n.View().Due(uid)
	p, err := h.n.Post(uid, &d)
	if err != nil {
		h.t.Fatal(err)
	}
	if !due {
		if h.kinds["not due"]++; p.Answer.Wait != InWaves {
			h.fail("%s is not due, and posted: %+v", uid, p)
		}
		return
	}
	if h.n.outlook.facts.pods.byUID[uid].wave > 1 && p.Answer.OK() {
		h.kinds["later wave"]++
	}
	if !p.Answer.OK() {
		h.n.Forget(uid)
		return
	}
	h.promised[uid] = Promise{Decision: d.Clone(), Exact: p.Answer.Exact}
	h.bound[uid] = p.Turn
	h.contended[uid] = slices.ContainsFunc(h.log[h.seen:], func(w write) bool {
		return w.verb == "bind" && h.foreign[w.uid] || w.verb == "gone" && h.refused[w.uid] || w.verb == "resize"
	})
	h.late[uid] = h.deaf && slices.ContainsFunc(h.log[h.seen:], func(w write) bool { return w.verb != "bind" })
	h.log = append(h.log, write{"bind", uid})
}

func (h *history) forgetOne() {
	if list := h.reserved(); len(list) > 0 {
		h.n.Forget(list[h.rng.IntN(len(list))])
	}
}

// resizeOne changes the request of a bound pod.
func (h *history) resizeOne() {
	var list []string
	for _, w := range h.log {
		if w.verb == "bind" && !h.foreign[w.uid] && !slices.Contains(h.log, write{"gone", w.uid}) {
			list = append(list, w.uid)
		}
	}
	if !h.resizing || len(list) == 0 {
		return
	}
	uid := list[h.rng.IntN(len(list))]
	now := *h.requests[uid]
	now.Containers = slices.Clone(now.Containers)
	now.Containers[0].MilliCPU = int64(1+h.rng.IntN(8)) * 1000
	h.wants[uid] = &now
	h.log = append(h.log, write{"resize", uid})
}

// shown returns the request of a bound pod as the scheduler reads it: the amounts that the kubelet
// has allocated, if it has reported them.
func (h *history) shown(uid string) *placement.Request {
	if _, admitted := h.k.found[uid]; h.heard[uid] && !admitted {
		return h.wants[uid]
	}
	return h.requests[uid]
}

// foreignOne binds a pod as another scheduler does.
func (h *history) foreignOne() {
	r := h.request()
	h.foreign[r.UID] = true
	h.log = append(h.log, write{"bind", r.UID})
}

func (h *history) deleteOne() {
	var list []string
	deleted := map[string]bool{}
	for _, w := range h.log {
		switch w.verb {
		case "bind":
			list = append(list, w.uid)
		case "delete":
			deleted[w.uid] = true
		}
	}
	list = slices.DeleteFunc(list, func(uid string) bool { return deleted[uid] })
	if len(list) > 0 {
		h.log = append(h.log, write{"delete", list[h.rng.IntN(len(list))]})
	}
}

// kubeletReads makes the kubelet read one write.
func (h *history) kubeletReads() {
	if h.kubeletAt == len(h.log) {
		return
	}
	w := h.log[h.kubeletAt]
	h.kubeletAt++
	switch w.verb {
	case "bind":
		h.arrive(w.uid)
	case "delete":
		h.ending = append(h.ending, w.uid)
	}
}

// relist is a kubelet whose watch has broken: it reads all writes at once, and admits pods in the
// order of their creation.
func (h *history) relist() {
	if h.kubeletAt == len(h.log) {
		return
	}
	batch := h.log[h.kubeletAt:]
	h.kubeletAt = len(h.log)
	var bound []string
	for _, w := range batch {
		switch {
		case w.verb == "bind" && !slices.Contains(batch, write{"gone", w.uid}):
			bound = append(bound, w.uid)
		case w.verb == "delete":
			h.ending = append(h.ending, w.uid)
		}
	}
	h.rng.Shuffle(len(bound), func(i, j int) { bound[i], bound[j] = bound[j], bound[i] })
	slices.SortStableFunc(bound, func(a, b string) int { return cmp.Compare(h.created[a], h.created[b]) })
	if len(bound) > 1 {
		h.kinds["batch"]++
	}
	foreign := slices.ContainsFunc(bound, func(uid string) bool { return h.foreign[uid] })
	for _, uid := range bound {
		if slices.Contains(batch, write{"resize", uid}) {
			h.requests[uid], foreign = h.wants[uid], true
			h.kinds["admitted resized"]++
		}
	}
	for i, uid := range bound {
		h.contended[uid] = h.contended[uid] || foreign
		h.arrive(uid, bound[i+1:]...)
	}
}

// arrive is the admission of a pod. The pods in behind come in the same batch.
func (h *history) arrive(uid string, behind ...string) {
	meanwhile := h.endAmid(uid, behind)
	if len(meanwhile) > 0 {
		h.trace = append(h.trace, fmt.Sprintf("while %s is admitted: %v", uid, meanwhile))
	}
	v := h.k.admitAmid(h.requests[uid], meanwhile)
	if h.foreign[uid] {
		if v.OK() {
			h.alive = append(h.alive, uid)
		} else {
			h.log = append(h.log, write{"gone", uid})
		}
		return
	}
	promise := h.promised[uid]
	if h.contended[uid] {
		promise.Exact = false
		if !v.OK() {
			h.refused[uid] = true
			h.log = append(h.log, write{"gone", uid})
			return
		}
	}
	if !v.OK() {
		h.fail("%s was promised admission and is refused: %+v", uid, v)
	}
	found := h.k.found[uid]
	if promise.Exact && !Same(&promise.Decision, &found) && !h.late[uid] {
		h.fail("%s: promised %+v, found %+v", uid, promise.Decision, found)
	}
	h.alive = append(h.alive, uid)
}

// endOne ends a pod whose end was requested. The test assumes one fact about speed unless the
// scheduler is deaf: containers stop later than the scheduler learns about the deletion and the
// kubelet learns about all pods that were bound until then.
func (h *history) endOne() {
	if len(h.ending) == 0 {
		return
	}
	i := h.rng.IntN(len(h.ending))
	uid := h.ending[i]
	if !h.mayEnd(uid) {
		return
	}
	h.ending = slices.Delete(h.ending, i, i+1)
	if at := slices.Index(h.alive, uid); at >= 0 {
		h.alive = slices.Delete(h.alive, at, at+1)
		h.k.End(uid)
	}
	h.log = append(h.log, write{"gone", uid})
}

func (h *history) mayEnd(uid string) bool {
	until, ok := h.deletionHeard[uid]
	return h.deaf || ok && h.kubeletAt >= until
}

// endAmid ends up to two pods during the admission of another pod. All pods that are still to be
// admitted were bound after their deletion.
func (h *history) endAmid(arriving string, behind []string) (out []placement.Meanwhile) {
	first := slices.Index(h.log, write{"bind", arriving})
	for _, uid := range behind {
		first = min(first, slices.Index(h.log, write{"bind", uid}))
	}
	steps := h.k.m.Steps(h.requests[arriving])
	for range 2 {
		if len(h.ending) == 0 || h.rng.IntN(2) == 0 {
			break
		}
		i := h.rng.IntN(len(h.ending))
		uid := h.ending[i]
		at := slices.Index(h.alive, uid)
		if at < 0 || !h.mayEnd(uid) || first < max(h.deletionHeard[uid], slices.Index(h.log, write{"delete", uid})) {
			continue
		}
		h.ending, h.alive = slices.Delete(h.ending, i, i+1), slices.Delete(h.alive, at, at+1)
		h.log = append(h.log, write{"gone", uid})
		out = append(out, placement.Meanwhile{Step: h.rng.IntN(steps), UID: uid})
		h.kinds["amid"]++
	}
	return out
}

// startOne starts the containers of a pod.
func (h *history) startOne() {
	if len(h.alive) == 0 {
		return
	}
	uid := h.alive[h.rng.IntN(len(h.alive))]
	for _, c := range requestedStarts(h.requests[uid]) {
		h.k.State.Start(uid, []string{c})
	}
}

func (h *history) schedulerReads() {
	if h.seen == len(h.log) {
		return
	}
	w := h.log[h.seen]
	h.seen++
	h.heard[w.uid] = h.heard[w.uid] || w.verb == "resize"
	s := Sighting{UID: w.uid, Request: h.shown(w.uid), Created: h.created[w.uid], Turn: h.bound[w.uid]}
	switch w.verb {
	case "bind":
		h.see(s)
	case "resize":
		s.Phase = endingIf(h.deletionHeard[w.uid] > 0)
		h.see(s)
	case "delete":
		s.Phase = Ending
		h.see(s)
		h.deletionHeard[w.uid] = len(h.log)
	case "gone":
		h.judge(h.n.Gone(w.uid, h.now))
	}
}

func (h *history) see(s Sighting) {
	_, l := h.n.See(s)
	h.judge(l)
}

// judge checks the ledger's outcome of a promise.
func (h *history) judge(l *PromiseOutcome) {
	if l == nil || !l.Refused && (!l.Exact || l.Kept) {
		return
	}
	switch by := h.contended[l.UID] || h.late[l.UID]; {
	case !by:
		h.fail("landing %+v", *l)
	case !l.Contended && !h.old[l.UID] && (!l.Refused || h.contended[l.UID]):
		h.fail("news came late, and that is not told: landing %+v", *l)
	case h.late[l.UID]:
		h.kinds["late"]++
	}
}

func (h *history) reportOne() { h.reports = append(h.reports, h.k.report()) }

func (h *history) hearOne() {
	if len(h.reports) == 0 {
		return
	}
	for _, l := range h.n.Accept(h.reports[0]) {
		h.judge(&l)
	}
	h.reports = h.reports[1:]
}

// restart is a new scheduler that has read all writes and the last report.
func (h *history) restart() {
	last := h.n.View().Report()
	for h.seen < len(h.log) {
		h.schedulerReads()
	}
	h.n = new(Ledger).Open(nil)
	gone := map[string]bool{}
	for _, w := range h.log {
		if w.verb == "gone" {
			gone[w.uid] = true
		}
	}
	for _, w := range h.log {
		if w.verb == "bind" && !gone[w.uid] {
			s := Sighting{UID: w.uid, Request: h.shown(w.uid), Created: h.created[w.uid], Turn: h.bound[w.uid], Phase: endingIf(h.deletionHeard[w.uid] > 0), Inherited: true}
			h.old[w.uid] = true
			if promise, ok := h.promised[w.uid]; ok {
				s.Promise = &promise
			}
			h.n.See(s)
		}
	}
	h.n.Accept(last)
}

func (h *history) trial() {
	t := Trial{}
	for _, uid := range h.alive {
		if h.rng.IntN(2) == 0 {
			t.Without = append(t.Without, uid)
		}
	}
	if h.rng.IntN(2) == 0 {
		t.With = append(t.With, h.request())
	}
	before := h.n.View().Census()
	h.n.View().Ask(Question{Candidate: &Candidate{Request: h.request()}, Trial: &t})
	if h.n.View().Census() != before {
		h.t.Fatal("a trial changed the node")
	}
}

// settle makes the kubelet and the scheduler read everything.
func (h *history) settle() {
	for range 3 {
		for h.kubeletAt < len(h.log) {
			h.kubeletReads()
		}
		for h.seen < len(h.log) {
			h.schedulerReads()
		}
		for len(h.ending) > 0 {
			h.endOne()
		}
	}
	h.k.ReleaseEnded()
	for _, uid := range h.alive {
		for _, c := range requestedStarts(h.requests[uid]) {
			h.k.State.Start(uid, []string{c})
		}
	}
	h.reportOne()
	for len(h.reports) > 0 {
		h.hearOne()
	}
	for _, uid := range h.reserved() {
		h.n.Forget(uid)
	}
	h.n.ForgetGone(h.now.Add(time.Hour), time.Second)
}

// TestRandomHistories: a scheduler that has only the ledger places pods on a node that it sees
// late. No pod is refused, and exact promises are kept. At the end, the ledger's account equals the
// node's state.
func TestRandomHistories(t *testing.T) {
	kinds := map[string]int{}
	admitted, exact := 0, 0
	for seed := range uint64(*runs) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(t, seed)
			for range 150 {
				h.step()
			}
			h.settle()
			h.compare()
			for k, n := range h.kinds {
				kinds[k] += n
			}
			for _, p := range h.promised {
				admitted++
				if p.Exact {
					exact++
				}
			}
		})
		if !ok {
			return
		}
	}
	t.Logf("%d promises, %d of them exact; steps %v", admitted, exact, kinds)
	if admitted < *runs*3 || 5*exact < 2*admitted {
		t.Errorf("too few promises for this test")
	}
	if kinds["late"] == 0 {
		t.Errorf("no promise was broken by news that came late")
	}
	if kinds["not due"] == 0 || kinds["later wave"] == 0 {
		t.Errorf("%d posted too early, %d of a later wave: the waves show nothing", kinds["not due"], kinds["later wave"])
	}
}

func (h *history) compare() {
	if err := h.n.View().Check(); err != nil {
		h.t.Fatal(err)
	}
	if c := h.n.View().Census(); c.Reserved+c.Posted+c.Afloat+c.Ending > 0 {
		h.fail("left over: %+v", c)
	}
	got, ok := h.n.View().Snapshot()
	want := h.k.State.Snapshot()
	if !ok || got.SharedCPUs != want.SharedCPUs || len(got.Pods) != len(want.Pods) {
		h.fail("in the end the ledger has %+v, the node %+v", got, want)
	}
}
