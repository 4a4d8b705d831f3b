package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

func TestDiffer(t *testing.T) {
	cpus := shapes.CPUs("2-3")
	promised := []placement.ContainerDecision{{Name: "a", CPUs: cpus, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 5}, {Resource: "hugepages-2Mi", NUMA: 1}}}}
	held := placement.ContainerAllocation{Name: "a", CPUs: cpus, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 5}}}
	for _, tc := range []struct {
		change func(*placement.ContainerAllocation)
		want   string
	}{
		{func(*placement.ContainerAllocation) {}, ""},
		{func(c *placement.ContainerAllocation) { c.CPUs = topology.CPUSet{} }, "CPUs"},
		{func(c *placement.ContainerAllocation) { c.Name = "b" }, "CPUs"},
		{func(c *placement.ContainerAllocation) { c.Memory = nil }, "memory"},
		{func(c *placement.ContainerAllocation) {
			c.Devices = []placement.DeviceAllocation{{Resource: gpuResource, IDs: []string{"gpu-0-0"}}}
		}, "devices"},
	} {
		c := held
		tc.change(&c)
		got := differ(promised, &placement.PodAllocation{Containers: []placement.ContainerAllocation{c}})
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%+v: %q, want something of %q", c, got, tc.want)
		}
	}
}

func TestDisturbed(t *testing.T) {
	now := time.Now()
	b := &book{faults: []span{
		{Kill, "node-n0", now, now.Add(time.Second), false}, {Pause, "scheduler-1", now.Add(time.Minute), now.Add(time.Minute + time.Second), false},
		{Kill, "agent-n1", now, now.Add(time.Hour), false}, {Pause, "scheduler-0", now.Add(7 * time.Minute), now.Add(8 * time.Minute), true},
		{Kill, leader, now.Add(9 * time.Minute), now.Add(9*time.Minute + time.Second), false},
		{Jump, "scheduler-0", now.Add(5 * time.Minute), now.Add(5 * time.Minute), false},
		{Late, storageName, now.Add(10 * time.Minute), now.Add(10*time.Minute + time.Second), false},
	}}
	for _, tc := range []struct {
		node  string
		after time.Duration
		want  bool
	}{
		{"n0", -time.Second, false}, {"n0", 0, true}, {"n0", 15 * time.Second, true}, {"n0", 30 * time.Second, false},
		{"n1", 0, false}, {"n1", time.Minute, true}, {"n1", time.Minute + 10*time.Second, false},
		{"n1", 5*time.Minute + time.Second, false}, {"n1", 10*time.Minute + time.Second, true},
		{"n1", 7*time.Minute + time.Second, false}, {"n1", 9*time.Minute + time.Second, false},
	} {
		if got := b.disturbed(tc.node, now.Add(tc.after), now.Add(tc.after)) != nil; got != tc.want {
			t.Errorf("%s after %v: disturbed %v, want %v", tc.node, tc.after, got, tc.want)
		}
	}
}

// TestLine sends requests through a line with each fault.
func TestLine(t *testing.T) {
	arrived := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.URL.Path }))
	defer server.Close()
	l, err := newClientLine(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tc := range []struct {
		fault             Kind
		answered, arrives bool
	}{{"", true, true}, {Late, true, true}, {Orphan, false, true}, {Lose, false, false}, {Lose, false, true}} {
		l.set(tc.fault)
		resp, err := client.Post("http://"+l.Addr()+"/api/v1/namespaces/default/pods/p/binding", "text/plain", strings.NewReader("x"))
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != tc.answered {
			t.Errorf("%q: error %v, want an answer: %v", tc.fault, err, tc.answered)
		}
		if tc.arrives {
			select {
			case <-arrived:
			case <-time.After(time.Minute):
				t.Errorf("%q: the request has not arrived", tc.fault)
			}
		}
	}
	if len(arrived) > 0 {
		t.Error("a request that should be lost has arrived")
	}
	if l.struck != 4 {
		t.Errorf("%d requests were hit, want 4", l.struck)
	}
}

func TestViolationIsPrintedWhole(t *testing.T) {
	var out bytes.Buffer
	b := &book{out: &out, seed: 7, begun: time.Now(), counts: map[Kind]int{}, logs: func(string) map[string]string { return map[string]string{"agent-n0": "/nonexistent"} }}
	b.did(&Op{Kind: Kill, Target: "node-n0"}, "scheduler-0")
	b.violate("something", "n0", map[string]string{"kind": "Thing"})
	for _, want := range []string{"seed 7", "something", `{"kind":"Thing"}`, "kill node-n0", "log of agent-n0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing from %s", want, out.String())
		}
	}
	if b.count() != 1 {
		t.Errorf("%d violations counted", b.count())
	}
}
