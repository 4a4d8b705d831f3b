package query

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestNeedAgainstFit: a load of equal pods needs as many nodes of a group as result from the number
// of copies that fit on an empty node.
func TestNeedAgainstFit(t *testing.T) {
	c := playground(t)
	s := surveyed(t, c)
	for _, n := range s.States {
		n.Object = fresh(n.Object)
	}
	random := rand.New(rand.NewPCG(31, 6))
	placed, never := 0, 0
	for i := range 60 {
		p := wants(fmt.Sprint("p", i), fmt.Sprint(1+random.IntN(40)), fmt.Sprint(1+random.IntN(64), "Gi"), fmt.Sprint(random.IntN(3)))
		replicas := 1 + random.IntN(40)
		o := []Setting{{}, {Policy: "single-numa-node"}, {Reserved: "0-3"}}[i%3]
		compared, err := Compare(t.Context(), c, []Wanted{{Pod: p, Replicas: replicas}}, FitOptions{Limit: 1, Setting: o})
		if err != nil {
			t.Fatal(err)
		}
		got := compared.Groups
		empty := o
		empty.Empty = true
		fitted, _, err := fitAll(t.Context(), c, s, []Wanted{{Pod: p, Replicas: 1}}, FitOptions{Limit: 200, Setting: empty})
		if err != nil {
			t.Fatal(err)
		}
		copies := map[string]int{}
		for _, n := range fitted[0].Nodes {
			copies[n.Node] = n.Copies
		}
		for _, group := range groupNodes(s, s.Names()) {
			g, n := &got[0], copies[group[0]]
			got = got[1:]
			switch {
			case n == 0 && g.After.Nodes == 0 && neverFit(g.After.Never) == replicas:
				never++
			case n == 0 || g.After.Nodes != (replicas+n-1)/n || g.After.Pods != replicas:
				t.Errorf("pod %d %v, %d replicas, on nodes like %s, %+v: %+v, %d fit on one", i, p.Spec.Containers[0].Resources.Limits, replicas, group[0], o, g.After, n)
			case g.After.ByAmounts > g.After.Nodes || g.After.ByAmounts == 0:
				t.Errorf("pod %d: %+v", i, g.After)
			default:
				placed++
			}
		}
	}
	if placed < 50 || never < 20 {
		t.Errorf("%d placed, %d never: the test asks too little", placed, never)
	}
}

// TestCompare: "before" is the answer of fit for the nodes as they are, and "after" for the nodes
// with the setting.
func TestCompare(t *testing.T) {
	c := playground(t)
	wanted := []Wanted{{Pod: wants("train", "12", "8Gi", "1"), Replicas: 5}, {Pod: wants("wide", "70", "8Gi", "0"), Replicas: 1}}
	o := FitOptions{Limit: 100, Setting: Setting{NUMAPerPackage: 2}}
	got, err := Compare(t.Context(), c, wanted, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range []Setting{{Empty: true}, {Empty: true, NUMAPerPackage: 2}} { // fit assumes empty nodes for this
		fitted, _, err := Fit(t.Context(), c, wanted, FitOptions{Limit: 100, Setting: set})
		if err != nil {
			t.Fatal(err)
		}
		for j := range fitted {
			if f := []Fits{got.Pods[j].Before, got.Pods[j].After}[i]; f != fits(&fitted[j]) || f.Copies != fitted[j].Copies || f.Placed != fitted[j].Placed {
				t.Errorf("%s, %+v: %+v, want %+v", fitted[j].Name, set, f, fits(&fitted[j]))
			}
		}
	}
	if len(got.Rows) < 10 || len(got.Never) == 0 || len(got.Groups) < 2 || got.Groups[0].Count < got.Groups[1].Count {
		t.Errorf("%+v", got)
	}
	short := []Wanted{{Pod: wants("train", "12", "8Gi", "1"), Replicas: 30}}
	if moving, err := Compare(t.Context(), c, short, FitOptions{Limit: 1, Setting: Setting{Policy: "none"}}); err != nil || moving.Moving == nil || moving.Moving.Before.Outcome == "" {
		t.Errorf("%+v, %v: want to hear what would move", moving, err)
	}
	if fitted, _, err := Fit(t.Context(), c, short, FitOptions{Limit: 100}); err != nil || fitted[0].Copies < 2 {
		t.Errorf("%+v, %v: want two copies", fitted, err)
	} else { // each workload fits alone, but not both together
		both := []Wanted{{Pod: wants("train", "12", "8Gi", "1"), Replicas: fitted[0].Copies}, {Pod: wants("late", "12", "8Gi", "1"), Replicas: 1}}
		got, err := Compare(t.Context(), c, both, FitOptions{Limit: 100})
		if err != nil || got.Pods[0].Before.Placed != fitted[0].Copies || got.Pods[1].Before.Placed != 1 || got.Moving == nil || got.Moving.Before.Outcome == "" {
			t.Errorf("%+v, %v: want to hear that both find no place together", got, err)
		}
	}
	if fits, err := Compare(t.Context(), c, []Wanted{{Pod: wants("one", "1", "1Gi", "0"), Replicas: 2}}, FitOptions{Limit: 100}); err != nil || fits.Moving != nil {
		t.Errorf("%+v, %v: want nothing about moves where there is room", fits, err)
	}
	if again, err := Compare(t.Context(), c, wanted, FitOptions{Limit: 100}); err != nil || again.Pods[0].Before != again.Pods[0].After {
		t.Errorf("nothing is set: %+v, %v", again, err)
	}
	for _, bad := range []struct {
		wanted []Wanted
		o      FitOptions
		want   string
	}{
		{[]Wanted{{Pod: wants("many", "1", "1Gi", "0"), Replicas: MaxNeeded + 1}}, FitOptions{Limit: 1}, "pods: want at most 2000"},
		{wanted, FitOptions{Limit: 1, Nodes: []string{"nobody"}}, "there is no Node nobody"},
	} {
		if _, err := Compare(t.Context(), c, bad.wanted, bad.o); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %s", err, bad.want)
		}
	}
}

// TestReservedLeavesLess: a node's allocatable amounts do not include reserved resources.
func TestReservedLeavesLess(t *testing.T) {
	c := playground(t)
	s := surveyed(t, c)
	name := s.Names()[0]
	before := s.States[name].Object.Status
	set := Setting{Reserved: "0-3"}
	after := set.on(s, []string{name}).States[name].Object.Status
	if got, all := after.Allocatable.Cpu().Value(), before.Capacity.Cpu().Value(); got != all-4 || s.States[name].Object.Status.Allocatable.Cpu().Value() != before.Allocatable.Cpu().Value() {
		t.Errorf("allocatable are %d CPUs of %d with 4 reserved", got, all)
	}
}
