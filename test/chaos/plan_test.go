package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSeedDeterminesThePlan(t *testing.T) {
	a, b := NewPlan(1, 4, 5*time.Minute), NewPlan(1, 4, 5*time.Minute)
	if !reflect.DeepEqual(a, b) {
		t.Error("two plans of one seed differ")
	}
	if hashOf(a) != hashOf(b) {
		t.Error("the hashes of two plans of one seed differ")
	}
	if longer := NewPlan(1, 4, 6*time.Minute); !reflect.DeepEqual(a, longer[:len(a)]) {
		t.Error("a longer plan of the same seed has another beginning")
	}
	if reflect.DeepEqual(a, NewPlan(2, 4, 5*time.Minute)) {
		t.Error("plans of two seeds are equal")
	}
}

// TestPlanHasEverything: each kind of operation occurs, pods are deleted once and after they were
// created, and no process has two faults at a time.
func TestPlanHasEverything(t *testing.T) {
	foreign, groups, targets := map[bool]int{}, map[bool]int{}, map[string]bool{}
	kinds, alive, until := map[Kind]int{}, map[string]bool{}, map[string]time.Duration{}
	for _, o := range NewPlan(3, 4, 10*time.Minute) {
		kinds[o.Kind]++
		switch o.Kind {
		case Create:
			alive[o.Target] = true
			foreign[o.Pod.foreign()]++
		case CreateGang:
			for _, member := range o.Gang {
				alive[member.Name] = true
				groups[member.Group]++
				if member.Minimum < 1 || member.Minimum > len(o.Gang) {
					t.Errorf("%v: a minimum of %d", o, member.Minimum)
				}
			}
		case Delete, ForceDelete:
			if !alive[o.Target] {
				t.Errorf("%v: there is no such pod", o)
			}
			delete(alive, o.Target)
		default:
			targets[strings.TrimRight(o.Target, "0123456789")] = true
			if o.At < until[o.Target] {
				t.Errorf("%v: another fault lasts until %v", o, until[o.Target])
			}
			until[o.Target] = o.At + o.For
		}
	}
	for _, k := range []Kind{Create, CreateGang, Delete, ForceDelete, Kill, Pause, Slow, Jump, Cut, Lose, Late, Orphan} {
		if kinds[k] == 0 {
			t.Errorf("no %s among %v", k, kinds)
		}
	}
	for _, name := range []string{storageName, apiServerName, leader, shadowName, "scheduler-", "agent-n", "node-n"} {
		if !targets[name] {
			t.Errorf("no fault of %s among those of %v", name, targets)
		}
	}
	if groups[true] == 0 || groups[false] == 0 {
		t.Errorf("members of gangs with a PodGroup and without: %v; want both", groups)
	}
	if foreign[true] == 0 || foreign[true] > foreign[false]/5 {
		t.Errorf("pods of others: %d, of ours: %d; want some", foreign[true], foreign[false])
	}
}
