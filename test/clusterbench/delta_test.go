package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestDelta changes reports at random. Carrying out the JSON patch must turn the earlier report
// into the later one.
func TestDelta(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 5))
	before := anyStatus(rng, nil)
	for i := range 2000 {
		now := anyStatus(rng, before)
		steps, err := deltaOf(before, now)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{"status": decoded(t, before)}
		for _, s := range decoded(t, steps).([]any) {
			operation := s.(map[string]any)
			path := strings.Split(operation["path"].(string), "/")[1:]
			carryOut(t, got, operation, path)
		}
		if want := decoded(t, now); !reflect.DeepEqual(got["status"], want) {
			t.Fatalf("change %d: %+v makes %v of %+v, want %v", i, steps, got["status"], before, want)
		}
		before = now
	}
}

// anyStatus returns a random report. Some of its pods are in the report before.
func anyStatus(rng *rand.Rand, before *v1alpha1.NodeTopologyStatus) *v1alpha1.NodeTopologyStatus {
	s := &v1alpha1.NodeTopologyStatus{Sequence: rng.Int64N(1 << 41), SharedCPUs: v1alpha1.CPUList([]string{"", "0-1", "4"}[rng.IntN(3)])}
	if before != nil {
		s.Pods = slices.DeleteFunc(slices.Clone(before.Pods), func(v1alpha1.PodAllocation) bool { return rng.IntN(4) == 0 })
	}
	for range rng.IntN(4) {
		s.Pods = slices.Insert(s.Pods, rng.IntN(len(s.Pods)+1), v1alpha1.PodAllocation{UID: fmt.Sprintf("%x", rng.Uint64())})
	}
	if len(s.Pods) > 1 && rng.IntN(8) == 0 {
		s.Pods[0], s.Pods[1] = s.Pods[1], s.Pods[0]
	}
	for i := range rng.IntN(3) {
		s.Memory = append(s.Memory, v1alpha1.MemoryTable{NUMA: v1alpha1.NUMAID(i), Assignments: rng.Int32N(3), Resources: []v1alpha1.MemoryAmounts{
			{Resource: "memory", Allocatable: 1 << 38, Reserved: v1alpha1.Bytes(rng.IntN(3)) << 30},
		}})
	}
	return s
}

func decoded(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// carryOut carries out an operation of RFC 6902 and returns the changed value.
func carryOut(t *testing.T, in any, operation map[string]any, path []string) any {
	t.Helper()
	op, value, last := operation["op"], operation["value"], len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		old, there := in[path[0]]
		switch {
		case !there && (op != "add" || !last):
			t.Fatalf("%v: %s is not there", operation, path[0])
		case !last:
			in[path[0]] = carryOut(t, old, operation, path[1:])
		case op == "remove":
			delete(in, path[0])
		default:
			in[path[0]] = value
		}
		return in
	case []any:
		i, err := strconv.Atoi(path[0])
		switch {
		case err != nil || i > len(in) || i == len(in) && (op != "add" || !last):
			t.Fatalf("%v: no item %s of %d", operation, path[0], len(in))
		case !last:
			in[i] = carryOut(t, in[i], operation, path[1:])
		case op == "remove":
			return slices.Delete(in, i, i+1)
		case op == "add":
			return slices.Insert(in, i, value)
		default:
			in[i] = value
		}
		return in
	}
	t.Fatalf("%v: %v has no %s", operation, in, path[0])
	return nil
}

// TestDeltaOfAChange: if one of 60 pods is replaced, the patch has two lines for pods, and few
// others.
func TestDeltaOfAChange(t *testing.T) {
	before := &v1alpha1.NodeTopologyStatus{Sequence: 7, SharedCPUs: "0-3"}
	for i := range 60 {
		before.Pods = append(before.Pods, v1alpha1.PodAllocation{UID: fmt.Sprint("pod-", i)})
	}
	now := before.DeepCopy()
	now.Sequence, now.Pods = 8, append(now.Pods[1:], v1alpha1.PodAllocation{UID: "new"})
	steps, err := deltaOf(before, now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(steps)
	want := `[{"op":"remove","path":"/status/pods/0"},{"op":"add","path":"/status/pods/59","value":"new"},{"op":"replace","path":"/status/sequence","value":8}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
