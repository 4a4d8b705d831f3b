package nodes

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
)

// paced returns a store whose pauses between reports use the fixture's clock.
func paced(f *fixture) (s *reflectorStore[*v1alpha1.NodeTopology], seen chan string) {
	seen = make(chan string, 10_000)
	s = newReflectorStore(func(nt *v1alpha1.NodeTopology) { seen <- nt.Name + "@" + nt.ResourceVersion }, func(string) {})
	s.pace(f.clock)
	return s, seen
}

func version(name string, n int) *v1alpha1.NodeTopology {
	return &v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(n)}}
}

// TestReportsArePaced: if a node reports a thousand times at once, a few reports are read, and the
// newest one in the end. Reports of other nodes are read at once.
func TestReportsArePaced(t *testing.T) {
	f := newFixture(t)
	s, seen := paced(f)
	for i := range 1000 {
		_ = s.Update(version("hasty", i+1))
	}
	if len(seen) != reportsInARow {
		t.Errorf("%d reports taken in at once, want %d", len(seen), reportsInARow)
	}
	for len(seen) > 0 {
		<-seen
	}
	_ = s.Update(version("calm", 1))
	if len(seen) != 1 || <-seen != "calm@1" {
		t.Error("the report of another node waits")
	}
	f.clock.Step(time.Second / reportsPerSecond)
	if got := <-seen; got != "hasty@1000" || len(s.aside) != 0 {
		t.Errorf("%s taken in after the pause, want the newest; %d are put aside", got, len(s.aside))
	}
}

// TestEarlyReportsWait for events of other kinds, but not forever.
func TestEarlyReportsWait(t *testing.T) {
	for name, turns := range map[string]int{"the news come": 3, "no news come": maxWaits} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s, seen := paced(f)
			asked, news := make(chan bool, maxWaits+1), false // s.mu guards news
			s.early = func(*v1alpha1.NodeTopology) bool { asked <- true; return !news }
			_ = s.Update(version("n", 1))
			_ = s.Update(version("n", 2))
			for turn := range turns {
				<-asked
				s.mu.Lock() // the timer is set
				news = turn == 2 && turns == 3
				s.mu.Unlock()
				if len(seen) > 0 {
					t.Fatalf("%s taken in after %d turns", <-seen, turn)
				}
				f.clock.Step(time.Second / reportsPerSecond)
			}
			if got := <-seen; got != "n@2" {
				t.Errorf("%s taken in, want the newest", got)
			}
			s.mu.Lock()
			if len(s.waits) > 0 {
				t.Errorf("remembered: %v", s.waits)
			}
			s.mu.Unlock()
		})
	}
}

// TestAReportThatIsGone is not read when its pause ends. Deleting the report does not let a node
// report more often.
func TestAReportThatIsGone(t *testing.T) {
	f := newFixture(t)
	s, seen := paced(f)
	for i := range 1000 {
		_ = s.Update(version("hasty", i+1))
		_ = s.Delete(version("hasty", i+1))
	}
	if len(seen) != reportsInARow || len(s.aside) != 0 {
		t.Errorf("%d reports taken in, %d put aside; want %d and none", len(seen), len(s.aside), reportsInARow)
	}
	s.release("hasty")
	if len(seen) != reportsInARow {
		t.Error("a report is taken in that is gone")
	}
}

// TestLimitsAreForgotten: a limit is kept until it allows everything again, but not longer than
// needed.
func TestLimitsAreForgotten(t *testing.T) {
	f := newFixture(t)
	s, seen := paced(f)
	for i := range 3 * fewLimits {
		if i%2 == 0 {
			f.clock.Step(time.Second / reportsPerSecond)
		}
		_ = s.Update(version(fmt.Sprint("n", i), i+1))
		_ = s.Delete(version(fmt.Sprint("n", i), i+1))
	}
	if len(s.limits) > fewLimits+1 || len(s.versions) > 0 || len(seen) != 3*fewLimits {
		t.Errorf("%d limits and %d versions are kept, %d reports taken in", len(s.limits), len(s.versions), len(seen))
	}
	for i := range 4 * fewLimits { // all at once: none allows everything
		_ = s.Update(version(fmt.Sprint("m", i), i+1))
	}
	if len(s.limits) < 4*fewLimits || s.maxLimits > 2*len(s.limits) {
		t.Errorf("%d limits are kept, at most %d", len(s.limits), s.maxLimits)
	}
}

// TestObeyingIsRecounted: Berth no longer decides about pods for which nothing is pinned when the
// last obeying node reports another authority, or has had no report for a long time.
func TestObeyingIsRecounted(t *testing.T) {
	f := newFixture(t)
	kubelet, config := f.spec.Authority, f.spec.Config
	obey := func(name string) {
		f.spec.Authority, f.spec.Config.Authority = v1alpha1.AuthorityBerth, placement.AuthorityBerth
		f.spec.Config.CPUManagerPolicy, f.spec.Config.TopologyManagerPolicy = "", ""
		f.ReportSeen(f.reportOf(name))
		f.spec.Authority, f.spec.Config = kubelet, config
	}
	obey("n")
	obey("n")
	obey("m")
	if !f.table.Obeying() {
		t.Fatal("no node obeys")
	}
	f.ReportSeen(f.reportOf("n"))
	if !f.table.Obeying() {
		t.Error("m obeys no more")
	}
	f.ReportGone("m")
	if !f.table.Obeying() {
		t.Error("m is forgotten at once: its report may come again")
	}
	found := f.table.sweep(nil, func(string) bool { return true })
	f.table.sweep(found, func(string) bool { return true })
	if f.table.Obeying() {
		t.Error("m obeys still, without a report")
	}
	obey("l")
	f.ReportGone("l")
	found = f.table.sweep(nil, func(string) bool { return false })
	f.table.sweep(found, func(string) bool { return false })
	if f.table.Obeying() || f.table.Known("l") != nil {
		t.Error("l obeys still, and is gone")
	}
}

// TestNamesThatPodsInvent: a tenant binds pods to nodes that do not exist. A limited number of
// these names is kept until the pods are gone. A node that reports is always added.
func TestNamesThatPodsInvent(t *testing.T) {
	f := newFixture(t)
	for i := range maxUnproven + 100 {
		pod := pinned(fmt.Sprint("p", i), 1)
		pod.Spec.NodeName = fmt.Sprint("invented-", i)
		f.PodSeen(pod, false)
		if i%2 == 0 {
			f.PodGone(pod)
		}
	}
	if len(f.table.byName) != maxUnproven || f.table.unproven != maxUnproven {
		t.Errorf("%d nodes are kept, %d counted; want %d", len(f.table.byName), f.table.unproven, maxUnproven)
	}
	f.ReportSeen(f.reportOf("n"))
	f.ReportSeen(f.reportOf("invented-0"))
	if f.table.Unusable(f.table.Named("n")) != nil || f.table.unproven != maxUnproven-1 {
		t.Errorf("a node that reports is not taken in; %d are unproven", f.table.unproven)
	}
	f.clock.Step(sweepEvery)
	var found map[*Node]bool
	for range 2 {
		f.table.expire(f.clock.Now())
		found = f.table.sweep(found, func(string) bool { return false })
	}
	if len(f.table.byName) != maxUnproven/2+2 || f.table.unproven != maxUnproven/2 {
		t.Errorf("%d nodes are left, %d unproven; want those whose pods are there, and two that reported", len(f.table.byName), f.table.unproven)
	}
}
