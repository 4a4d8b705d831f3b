package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Plan is a list of steps for each scheduler.
type Plan []Step

// Step creates a pod, and carries out other actions.
type Step struct {
	Pod Pod
	// Ends is a pod that is deleted as soon as it runs; "" for none. With Hasty it is deleted at
	// once.
	Ends  string
	Hasty bool
	Kill  Kill
	// Node is the node whose kubelet is killed.
	Node string
	// Then is the pause after the step.
	Then time.Duration
}

// Kill is the process that is killed, and when.
type Kill uint8

// The kills.
const (
	NoKill      Kill = iota
	KillNow          // kills the scheduler at once
	KillMidway       // kills the scheduler between the write of a claim's allocation and the pod's Binding
	KillKubelet      // kills and restarts the kubelet of the step's node
)

// Pod is a pod with one container, with or without claims, and perhaps a second container.
type Pod struct {
	Name string
	CPUs int
	// Shared means that its containers have no exclusive CPUs.
	Shared bool
	Beside bool
	// Claims are the templates of its claims.
	Claims []string
	// Ask is the value of berth.dev/claims; "" for none.
	Ask string
	// Node is the only allowed node; "" for any.
	Node string
	// Policy is the value of berth.dev/policy; "" for none. Pinned asks for berth.dev/memory, too.
	Policy string
	Pinned bool
	// Gang is its gang, of Members that all start together; "" for none.
	Gang    string
	Members int
	// Shares is a claim that it shares with others; "" for none. A pod with a mode does not share
	// the claim.
	Shares string
}

// served says whether Berth can promise the pod's request.
type served uint8

// The answers.
const (
	always served = iota
	// sometimes: the pod requires near devices and has no exclusive CPUs; only devices without a
	// NUMA node are near.
	sometimes
	never // the pod requires alignment of a claim with admin access
)

func (p *Pod) served() served {
	switch {
	case p.Ask != "" && len(p.Claims) > 0 && p.Claims[0] == adminTemplate:
		return never
	case p.Ask == "required" && p.Shared:
		return sometimes
	}
	return always
}

// live is the number of pods that a plan keeps running.
const live = 11

// NewPlan makes a plan of n pods.
func NewPlan(seed uint64, n int) Plan {
	rng := rand.New(rand.NewPCG(seed, 61))
	var there []string
	plan := make(Plan, n)
	for i := range plan {
		s := &plan[i]
		s.Pod = newPod(rng, i)
		s.Then = time.Duration(300+rng.IntN(900)) * time.Millisecond
		there = append(there, s.Pod.Name)
		if len(there) > live && rng.IntN(4) > 0 {
			at := rng.IntN(len(there))
			s.Ends, s.Hasty = there[at], rng.IntN(6) == 0
			there = append(there[:at], there[at+1:]...)
		}
		switch rng.IntN(40) {
		case 0:
			s.Kill = KillNow
		case 1, 2:
			s.Kill = KillMidway
		case 3, 4:
			s.Kill, s.Node = KillKubelet, nodeName(rng.IntN(len(kinds)))
		}
	}
	return plan
}

func newPod(rng *rand.Rand, i int) Pod {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	p := Pod{Name: fmt.Sprint("p", i), CPUs: 1 + rng.IntN(4), Beside: rng.IntN(5) == 0}
	if rng.IntN(3) == 0 {
		return p
	}
	p.Ask = pick("required", "required", "required", "near", "")
	if p.Shared = rng.IntN(8) == 0; rng.IntN(4) == 0 {
		p.Policy = "single-numa-node"            // the policy of n0 too
		p.Pinned = !p.Shared && rng.IntN(2) == 0 // only on nodes with authority berth
	}
	switch rng.IntN(14) {
	case 0:
		p.Ask, p.Claims = "required", []string{adminTemplate}
	case 1:
		p.Ask, p.Shares = "required", fmt.Sprint("shared-", rng.IntN(2))
	case 2:
		p.Claims = []string{"gpu", "nic"}
	default:
		p.Claims = []string{pick("gpu", "gpu", "gpu", "gpu", "nic", "nic", "two-gpus", "pair", "first", "gpu-and-nic", "other")}
	}
	return p
}
