package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Scene is a short demonstration on its own playground.
type Scene struct {
	Name string
	// About describes the scene in one or two sentences.
	About string
	// Nodes is the number of nodes, which the function Nodes returns.
	Nodes int
	// Own are the scene's own nodes. If there are any, they replace Nodes.
	Own []hollow.Spec
	// Berth is the scheduler of the scene's cluster.
	Berth Berth
	// play returns the steps, which run one after the other until one fails.
	play func(s *stage) []step
}

// step is one step of a scene. The text tells is printed first. The function does then acts, waits
// for the result, and prints the result.
type step struct {
	tells string
	does  func(ctx context.Context) error
}

// Scenes has all scenes.
var Scenes = []Scene{nowhere, twoGangs, gpusApart, silentAgent}

// SceneOf returns the named scene.
func SceneOf(name string) (*Scene, error) {
	for i := range Scenes {
		if Scenes[i].Name == name {
			return &Scenes[i], nil
		}
	}
	names := make([]string, 0, len(Scenes))
	for i := range Scenes {
		names = append(names, Scenes[i].Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("%q: want one of %s", name, strings.Join(names, ", "))
}

// Play plays the scene on a running cluster and prints the events to w.
func (s *Scene) Play(ctx context.Context, c *Cluster, w io.Writer) error {
	for i, next := range s.play(&stage{Cluster: c, out: w}) {
		fmt.Fprintf(w, "\n%d. %s\n", i+1, next.tells)
		if err := next.does(ctx); err != nil {
			return fmt.Errorf("scene %s: %w", s.Name, err)
		}
	}
	return nil
}

// sceneStale is the age at which a node's report counts as stale. It is shorter than on a real
// cluster, so that viewers need not wait.
const sceneStale = 10 * time.Second

var silentAgent = Scene{
	Name:  "silent-agent",
	About: "An agent dies. Pods that would be pinned stay away from its node until the agent is back. Other pods still go there.",
	Nodes: 2,
	Berth: Berth{Args: &scheduler.Args{StaleAfter: metav1.Duration{Duration: sceneStale}}},
	play: func(s *stage) []step {
		node := s.Nodes[0].Name
		return []step{
			{fmt.Sprintf("The agent of %s reports the CPUs that the kubelet assigns. A pod with 4 exclusive CPUs:", node),
				func(ctx context.Context) error { return s.runs(ctx, scenePod("before", node, 4, true)) }},
			{fmt.Sprintf("The agent of %s dies. The node's kubelet and pods do not notice. After %v the scheduler no longer relies on the report:", node, sceneStale),
				func(ctx context.Context) error {
					if err := s.StopAgent(node); err != nil {
						return err
					}
					select { // an earlier pod could be bound, because the report is not stale yet
					case <-time.After(sceneStale):
					case <-ctx.Done():
						return ctx.Err()
					}
					return s.waits(ctx, scenePod("during", node, 4, true), wire.NoSignOfLife)
				}},
			{"A pod that shares CPUs may still go there:",
				func(ctx context.Context) error { return s.runs(ctx, scenePod("ordinary", node, 4, false)) }},
			{"A pinned pod that may run on any node goes to another one:",
				func(ctx context.Context) error { return s.runs(ctx, scenePod("elsewhere", "", 4, true)) }},
			{"The agent is back, and the waiting pod now runs:",
				func(ctx context.Context) error {
					if err := s.StartAgent(ctx, node); err != nil {
						return err
					}
					return s.running(ctx, "during")
				}},
		}
	},
}

var nowhere = Scene{
	Name:  "nowhere",
	About: "A node has the CPUs that a pod asks for, but no single NUMA node has them. The pod waits, its condition says why, and other pods are not affected.",
	Nodes: 1,
	play: func(s *stage) []step {
		return []step{
			{fmt.Sprintf("%s is empty. It has 76 allocatable CPUs, 38 on each of 2 NUMA nodes, and its policy is single-numa-node. A pod asks for 50:", s.Nodes[0].Name),
				func(ctx context.Context) error {
					return s.waits(ctx, scenePod("toolarge", "", 50, true), "need 2 NUMA nodes")
				}},
			{"kube-scheduler would have bound it, and the kubelet would have refused it. A pod that fits on one NUMA node runs:",
				func(ctx context.Context) error { return s.runs(ctx, scenePod("left", "", 30, true)) }},
			{"So does a second, on the other NUMA node:",
				func(ctx context.Context) error { return s.runs(ctx, scenePod("right", "", 30, true)) }},
			{"16 CPUs are free, 8 on each NUMA node. A pod that wants 12 waits for the CPUs of other pods:",
				func(ctx context.Context) error { return s.waits(ctx, scenePod("third", "", 12, true), "free CPUs (") }},
			{"The first one ends. When the node reports that its CPUs are free, the waiting pod runs:",
				func(ctx context.Context) error {
					if err := s.ends(ctx, "left"); err != nil {
						return err
					}
					return s.running(ctx, "third")
				}},
		}
	},
}

var twoGangs = Scene{
	Name:  "two-gangs",
	About: "Two gangs want the same nodes. One runs, the other holds nothing until all of it fits.",
	Nodes: 2,
	play: func(s *stage) []step {
		return []step{
			{"Two nodes have 4 NUMA nodes of 38 CPUs. A gang of 2 pods with 30 CPUs each:",
				func(ctx context.Context) error { return s.gangRuns(ctx, "first", 2) }},
			{"A gang of 3 such pods. Two of them would fit, and neither gets a node:",
				func(ctx context.Context) error { return s.gangWaits(ctx, "second", 3) }},
			{"The waiting gang holds no CPUs. A pod with 30 CPUs that comes later runs first:",
				func(ctx context.Context) error { return s.runs(ctx, scenePod("single", "", 30, true)) }},
			{"The first gang ends. Now 3 pods fit, and all 3 start:",
				func(ctx context.Context) error {
					for i := range 2 {
						if err := s.ends(ctx, memberName("first", i)); err != nil {
							return err
						}
					}
					return s.gangRunning(ctx, "second", 3)
				}},
		}
	},
}

// gpuNode returns a small server with two GPUs on each of its two NUMA nodes.
func gpuNode(name string) hollow.Spec {
	p := hollow.Plugin{Resource: gpuResource, Prefer: true}
	for i := range 4 {
		p.Devices = append(p.Devices, hollow.Device{ID: fmt.Sprint("gpu-", i), NUMA: []topology.NUMAID{topology.NUMAID(i / 2)}})
	}
	return hollow.Spec{
		Name: name, Machine: "package:2 numa:1 core:8 pu:2 mem:64Gi", Plugins: []hollow.Plugin{p},
		KubeletConfig: (&shape{policy: "single-numa-node", reserved: "0,16"}).kubeletConfig(nil),
	}
}

var gpusApart = Scene{
	Name:  "gpus-apart",
	About: "Two GPUs are free, on two servers. A pod that needs two GPUs on one NUMA node waits until another pod has moved.",
	Own:   []hollow.Spec{gpuNode("gpu-1"), gpuNode("gpu-2")},
	play: func(s *stage) []step {
		return []step{
			{"Two servers have 2 NUMA nodes with 2 GPUs each. Replicas and other pods are created alternately, each with one GPU:",
				func(ctx context.Context) error { return s.fillGPUs(ctx) }},
			{"One pod ends on each server. Each server now has one free GPU. A new pod requests 2 GPUs, which must be on one NUMA node:",
				func(ctx context.Context) error {
					for _, name := range []string{"short-0", "short-2"} {
						if err := s.ends(ctx, name); err != nil {
							return err
						}
					}
					if err := s.free(ctx, gpuResource, 2); err != nil {
						return err
					}
					return s.waits(ctx, gpuPod("train", 2), "Insufficient "+gpuResource)
				}},
			{"What has to move (kubectl berth defrag train):",
				func(ctx context.Context) error { return s.plansRoom(ctx, "train") }},
			{"The plan is carried out (kubectl berth defrag train --execute):",
				func(ctx context.Context) error { return s.makesRoom(ctx) }},
			{"The waiting pod now runs:",
				func(ctx context.Context) error { return s.running(ctx, "train") }},
		}
	},
}
