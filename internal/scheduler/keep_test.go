package scheduler

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// keeps sets the number of CPUs that the plugin keeps for each GPU.
func (f *fixture) keeps(cpus int) {
	f.Helper()
	f.terms = wire.Terms{Keep: wire.CPUsNearDevices, CPUsPerDevice: map[string]int{gpuName: cpus}}
	if err := f.terms.Check(); err != nil {
		f.Fatal(err)
	}
}

// TestKeptCPUsAreLeft: a pod without devices does not get CPUs that are kept. When a pod ends that
// used the other CPUs, the refused pod is tried again and gets these.
func TestKeptCPUsAreLeft(t *testing.T) {
	eachAuthority(t, func(t *testing.T, berth bool) {
		f := newFixture(t)
		f.devices(berth)
		f.keeps(2)
		n, pod, before := f.table.Named("n"), pinned("x", 3), []*corev1.Pod{pinned("one", 3), pinned("two", 8)}
		for _, pod := range before {
			f.admit(pod)
			f.feed.PodSeen(on(pod, "n"), false)
		}
		f.feed.ReportSeen(f.topology())
		c := f.table.Candidate(pod, f.ask(pod))
		f.waiters.Add(waiterOf(pod), &c)
		a := n.Account().View().Ask(ledger.Question{Candidate: &c})
		if a.Outcome != ledger.Refused || a.Verdict.Detail != placement.KeptForDevices || a.Verdict.Scarcity != placement.Resolvable {
			t.Fatalf("%+v", a)
		}
		f.blame(pod, nil, []*nodes.Node{n})
		woken := f.wakes()
		for _, pod := range before {
			f.state.Release(uidOf(pod))
			f.feed.PodGone(on(pod, "n"))
		}
		if f.feed.ReportSeen(f.topology()); len(woken) == 0 {
			t.Error("nobody was woken")
		}
		if a := n.Account().View().Ask(ledger.Question{Candidate: &c}); !a.OK() {
			t.Errorf("what is left: %+v", a)
		}
	})
}

// TestKeepAgrees: berth fit refuses what the scheduler refuses, in the same words.
func TestKeepAgrees(t *testing.T) {
	eachAuthority(t, func(t *testing.T, berth bool) {
		pod := pinned("x", 4)
		f, _ := attached(t, pod)
		f.devices(berth)
		f.keeps(3)
		state := newCycleData()
		if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		if s := f.Filter(t.Context(), state, pod, nodeObject("n")); s.IsSuccess() {
			t.Fatal("the scheduler admits it")
		}
		event := (&diagnosis{cycle: cycleOf(state)}).explain([]*nodes.Node{f.table.Named("n")})
		w := answers{now: f.clock.Now(), report: f.written(nil), lease: f.beat(func(l *coordinationv1.Lease) {
			l.Annotations[v1alpha1.SequenceAnnotation] = fmt.Sprint(f.seq)
		})}
		fits, _, err := query.Fit(t.Context(), w.connect(t, f.terms), []query.Wanted{{Pod: pod, Replicas: 1}}, query.FitOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		got := fits[0].Nodes[0].Answer
		if got.Answer == query.Admits || !strings.Contains(got.Message, "NUMA 0 has 1 CPU left for pods that ask for none of its devices (4 needed)") || !strings.Contains(event, got.Message) {
			t.Errorf("%s: %s\n%s", got.Answer, got.Message, event)
		}
	})
}

// TestWhatIsPlacedIsNotKeptFrom: a pod in flight has its CPUs, even if a new device appears for
// which they would be kept.
func TestWhatIsPlacedIsNotKeptFrom(t *testing.T) {
	f := newFixture(t)
	f.devicesOf(quads, false)
	all := gpus(f.spec.Machine)
	fewer := all
	fewer.Devices = all.Devices[1:] // one device less on NUMA node 0
	f.state.SetPool(fewer)
	f.feed.ReportSeen(f.topology())
	f.keeps(2)
	n, later := f.table.Named("n"), asking(pinned("y", 4), "1")
	later.CreationTimestamp = metav1.Unix(600, 0)
	c, next := f.table.Candidate(pinned("x", 5), f.ask(pinned("x", 5))), f.table.Candidate(later, f.ask(later))
	if a := n.Account().Reserve(&c, new(placement.Decision)); !a.OK() {
		t.Fatalf("%+v", a)
	}
	f.state.SetPool(all)
	f.feed.ReportSeen(f.topology())
	var d placement.Decision
	if a := n.Account().Reserve(&next, &d); !a.OK() || !d.Containers[0].CPUs.IsSubsetOf(&f.spec.Machine.NUMANode(1).CPUs) {
		t.Errorf("behind a pod with most of NUMA node 0: %+v, CPUs %s", a, d.Containers[0].CPUs)
	}
}

// ask returns the pod's request according to the plugin's arguments.
func (f *fixture) ask(pod *corev1.Pod) *placement.Request {
	f.Helper()
	ask, err := f.read(pod)
	if err != nil {
		f.Fatal(err)
	}
	return &ask.Request
}

// TestKeepIsAnArgument: it is read, and invalid values are refused.
func TestKeepIsAnArgument(t *testing.T) {
	for raw, want := range map[string]string{
		`{"keep":"cpusNearDevices"}`:                                      "keep: cpusNearDevices: want cpusPerDevice as well",
		`{"keep":"cpusNearDevices","cpusPerDevice":{"nvidia.com/gpu":8}}`: "",
		`{"keep":"gpus"}`:                                                   `keep: "gpus": want cpusNearDevices, or nothing`,
		`{"cpusPerDevice":{"nvidia.com/gpu":8}}`:                            "cpusPerDevice: want keep: cpusNearDevices as well",
		`{"keep":"cpusNearDevices","cpusPerDevice":{"nvidia.com/gpu":0}}`:   `cpusPerDevice: "nvidia.com/gpu": 0: want 1 to`,
		`{"keep":"cpusNearDevices","cpusPerDevice":{"no name":1}}`:          `cpusPerDevice: "no name": want the name of a resource`,
		`{"keep":"cpusNearDevices","cpusPerDevice":{"nvidia.com/gpu":1.5}}`: "cpusPerDevice",
	} {
		args, err := ParseArgs(&runtime.Unknown{Raw: []byte(raw)})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", raw, err)
		case want == "":
			if terms, _ := args.terms(); terms.Keep == "" {
				t.Errorf("%s: nothing is kept", raw)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}
