package sim

import (
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

// newKubelet returns a kubelet with two NUMA nodes of four CPUs, the policy single-numa-node, and
// CPU 0 reserved.
func newKubelet(t *testing.T) *Kubelet {
	t.Helper()
	model := made.Model(t, "package:2 numa:1 core:4 pu:1 mem:16Gi dist:10,21", placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"})
	return NewKubelet(model)
}

func asks(uid string, cpus int64) *placement.Request {
	return &placement.Request{UID: uid, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 1000 * cpus}}}
}

func (k *Kubelet) free() string {
	free := k.State.SharedCPUs()
	return free.String()
}

// want checks the shared CPUs, and that the state is valid.
func want(t *testing.T, k *Kubelet, free string) {
	t.Helper()
	if got := k.free(); got != free {
		t.Errorf("shared CPUs %s, want %s", got, free)
	}
	if err := k.State.Check(); err != nil {
		t.Error(err)
	}
}

func TestAdmit(t *testing.T) {
	k := newKubelet(t)
	a := k.Admit(asks("a", 3))
	if !a.Verdict.OK() || a.Decision.Containers[0].CPUs.String() != "1-3" || k.Active("a") != a {
		t.Errorf("a: %+v", a)
	}
	want(t, k, "0,4-7")
	if b := k.Admit(asks("b", 5)); b.Verdict.Reason != placement.TopologyAffinityError || k.Active("b") != nil {
		t.Errorf("b: %+v, want a refusal, and that it is not active", b)
	}
	want(t, k, "0,4-7")
	if again := k.Admit(asks("a", 3)); !again.Verdict.OK() || again == a || k.Active("a") != again {
		t.Errorf("a again: %+v", again)
	}
	want(t, k, "0,4-7")
}

// TestEnd: the resources of an ended pod are released when the next pod is admitted.
func TestEnd(t *testing.T) {
	k := newKubelet(t)
	k.Admit(asks("a", 4))
	k.End("a")
	k.End("a")
	if !k.Ended("a") {
		t.Error("a has not ended")
	}
	want(t, k, "0-3")
	if b := k.Admit(asks("b", 4)); !b.Verdict.OK() || k.Ended("a") || k.Active("a") != nil {
		t.Errorf("b: %+v, a: %+v", b, k.Active("a"))
	}
	want(t, k, "0-3")
	k.Remove("b")
	want(t, k, "0-7")
}

// TestRestart: a restart admits the pods in their order, with their earlier resources.
func TestRestart(t *testing.T) {
	k := newKubelet(t)
	for _, uid := range []string{"a", "b", "c"} {
		k.Admit(asks(uid, 2))
	}
	k.Remove("a")
	again, random, err := k.Restart()
	if err != nil || random || len(again) != 2 || again[0].Request.UID != "b" || again[1].Request.UID != "c" {
		t.Fatalf("%+v, %v, %v", again, random, err)
	}
	for _, a := range again {
		if !a.Verdict.OK() {
			t.Errorf("%s: %+v", a.Request.UID, a.Verdict)
		}
	}
	want(t, k, "0-3")
}

// TestClone: changes of a clone do not affect the original.
func TestClone(t *testing.T) {
	k := newKubelet(t)
	k.Admit(asks("a", 2))
	k.End("a")
	c := k.Clone()
	c.Admit(asks("b", 4))
	want(t, c, "0-3")
	want(t, k, "0,3-7")
	if !k.Ended("a") || k.Active("b") != nil || c.Active("b") == nil {
		t.Errorf("a ended: %v, b: %v and %v", k.Ended("a"), k.Active("b"), c.Active("b"))
	}
}
