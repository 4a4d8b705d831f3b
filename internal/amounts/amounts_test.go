package amounts

import "testing"

func TestShort(t *testing.T) {
	node := func() *Node {
		n := NewNode(List{CPU: 4000, Memory: 8 << 30, Pods: 3, "nvidia.com/gpu": 1, "hugepages-2Mi": 0}, EphemeralStorage)
		n.Add(List{CPU: 1500, Memory: 1 << 30})
		return n
	}
	for name, c := range map[string]struct {
		ask          List
		reason       string
		unresolvable bool
		message      string
	}{
		"nothing":       {List{}, "", false, ""},
		"all that left": {List{CPU: 2500, Memory: 7 << 30, "nvidia.com/gpu": 1}, "", false, ""},
		"CPU": {List{CPU: 2501}, "OutOfcpu", false,
			"Node didn't have enough resource: cpu, requested: 2501, used: 1500, capacity: 4000"},
		"never":         {List{CPU: 4001}, "OutOfcpu", true, ""},
		"CPU first":     {List{Memory: 9 << 30, CPU: 5000}, "OutOfcpu", true, ""},
		"memory":        {List{Memory: 8 << 30}, "OutOfmemory", false, ""},
		"untold":        {List{EphemeralStorage: 1 << 50}, "", false, ""},
		"device":        {List{"nvidia.com/gpu": 2}, "OutOfnvidia.com/gpu", true, ""},
		"not offered":   {List{"amd.com/gpu": 2}, "", false, ""},
		"no huge pages": {List{"hugepages-2Mi": 2 << 20}, "OutOfhugepages-2Mi", true, ""},
		"no such size":  {List{"hugepages-1Gi": 1 << 30}, "OutOfhugepages-1Gi", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := node().Short(c.ask)
			switch {
			case s == nil && c.reason == "":
			case s == nil || s.Reason() != c.reason || s.Unresolvable() != c.unresolvable:
				t.Errorf("got %+v, want %s, unresolvable %t", s, c.reason, c.unresolvable)
			case c.message != "" && s.Message() != c.message:
				t.Errorf("message %q, want %q", s.Message(), c.message)
			}
		})
	}
}

func TestShortOfPods(t *testing.T) {
	n := NewNode(List{Pods: 1})
	n.Add(List{})
	if s := n.Short(List{}); s == nil || s.Reason() != "OutOfpods" || s.Unresolvable() {
		t.Errorf("got %+v, want OutOfpods", s)
	}
}

func TestUseNeverTurnsNegative(t *testing.T) {
	n := NewNode(List{Memory: 1 << 40, Pods: 1})
	for range 3 {
		n.Hold(List{Memory: 1 << 62})
	}
	if s := n.Short(List{Memory: 1}); s == nil || s.Resource != Memory || s.Used < 1<<62 {
		t.Errorf("got %+v, want a shortage", s)
	}
}

func TestText(t *testing.T) {
	for want, s := range map[string]Shortage{
		"the node has 15 free CPUs of 16 in total, but the pod asks for 1000":         {Resource: CPU, Requested: 1000000, Used: 1000, Capacity: 16000},
		"the node has 0 free CPUs of 0.5 in total, but the pod asks for 1.5":          {Resource: CPU, Requested: 1500, Used: 700, Capacity: 500},
		"the node has 1.5Gi free memory of 2Gi in total, but the pod asks for 4Ti":    {Resource: Memory, Requested: 4 << 40, Used: 512 << 20, Capacity: 2 << 30},
		"the node has 0 free hugepages-2Mi of 0 in total, but the pod asks for 2Mi":   {Resource: "hugepages-2Mi", Requested: 2 << 20},
		"the node has 0 pods, and admits at most 110":                                 {Resource: Pods, Requested: 1, Capacity: 110},
		"the node has 7.9Ei free memory of 7.9Ei in total, but the pod asks for 1000": {Resource: Memory, Requested: 1000, Capacity: 1<<63 - 1},
	} {
		if got := s.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestAdvice: the advised amount fits, and the advice does not mention other pods on an empty node.
func TestAdvice(t *testing.T) {
	for want, s := range map[string]Shortage{
		"ask for at most 15.5Gi memory in total, or use nodes that have more":                                          {Resource: Memory, Requested: 16252929 << 10, Capacity: 16252928 << 10},
		"ask for at most 2 CPUs in total, or use nodes that have more":                                                 {Resource: CPU, Requested: 9000, Used: 6000, Capacity: 8000},
		"ask for at most 8 CPUs in total and wait until other pods end, or use nodes that have more":                   {Resource: CPU, Requested: 9000, Used: 8000, Capacity: 8000},
		"wait until other pods release CPUs (none is free here), or use other nodes":                                   {Resource: CPU, Requested: 1000, Used: 8000, Capacity: 8000},
		"wait until other pods release CPUs, use other nodes, or ask for at most 1 CPU in total":                       {Resource: CPU, Requested: 2000, Used: 7000, Capacity: 8000},
		"use nodes that have nvidia.com/gpu":                                                                           {Resource: "nvidia.com/gpu", Requested: 1},
		"wait until other pods end, or use other nodes (the maximum number of pods on this node: 110)":                 {Resource: Pods, Requested: 1, Used: 110, Capacity: 110},
		"wait until other pods release example.com/x, use other nodes, or ask for at most 2048 example.com/x in total": {Resource: "example.com/x", Requested: 3000, Used: 1001, Capacity: 3049},
	} {
		if got := s.Advice(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestFree: free amounts, and unknown ones.
func TestFree(t *testing.T) {
	n := NewNode(List{CPU: 4000, Pods: 3}, Memory)
	n.Add(List{CPU: 1500, Memory: 1 << 30})
	n.Hold(List{CPU: 3000})
	for resource, want := range map[string]int64{CPU: -500, Pods: 2, Memory: 0, "nvidia.com/gpu": 0} {
		if got := n.Free(resource); got != want {
			t.Errorf("%d of %s are free, want %d", got, resource, want)
		}
	}
	u := Unknown()
	u.Add(List{CPU: 1})
	if s := u.Short(List{CPU: 1 << 40, Pods: 1}); s != nil || u.Free(CPU) != 0 || u.Free(Pods) != 0 {
		t.Errorf("nobody says what there is, and %v is short", s)
	}
}

// TestTaken: ports with another protocol or another address are different ports.
func TestTaken(t *testing.T) {
	any80, local := Port{AnyIP, "TCP", 80}, Port{"127.0.0.1", "TCP", 81}
	n := Unknown()
	n.Add(nil, any80, local)
	for _, c := range []struct {
		want  Port
		taken bool
	}{
		{any80, true}, {Port{"10.0.0.1", "TCP", 80}, true}, {Port{AnyIP, "UDP", 80}, false},
		{Port{AnyIP, "TCP", 81}, true}, {Port{"10.0.0.1", "TCP", 81}, false}, {local, true}, {Port{AnyIP, "TCP", 82}, false},
	} {
		if got := n.Taken([]Port{c.want}); (got != "") != c.taken {
			t.Errorf("%s: %q is taken", c.want, got)
		}
	}
	n.Remove(nil, any80)
	if got := n.Taken([]Port{any80, local}); got != local.String() {
		t.Errorf("%q is taken of what is left", got)
	}
}
