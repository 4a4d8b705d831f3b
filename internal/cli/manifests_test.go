package cli

import (
	"strings"
	"testing"
)

// onNode returns a Pod with whole CPUs, in the form in which a cluster exports it.
func onNode(name, node, cpus, phase string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", uid: " + name + "}, spec: {nodeName: '" + node +
		"', containers: [{name: x, image: i, resources: {limits: {cpu: '" + cpus + "', memory: 1Gi}}}]}, status: {phase: " + phase + "}}"
}

func list(items string) string { return "{apiVersion: v1, kind: List, items: [" + items + "]}" }

// TestExportedPods: of the pods that a cluster exports, the answer is about those on one node.
func TestExportedPods(t *testing.T) {
	in := newInputs(t)
	kubelet := in.file("kubelet.yaml", staticCPUs)
	ask := func(verb, file string, more ...string) []string {
		return append([]string{verb, "-f", file, "--node", oneByTwo, "--kubelet-config", kubelet}, more...)
	}
	ended := in.file("ended.yaml", list(onNode("done", "n1", "2", "Succeeded")+","+onNode("runs", "n1", "2", "Running")))
	for _, verb := range []string{"place", "explain"} {
		expect(t, ExitOK, "runs   x           0      1,9", ask(verb, ended)...)
	}
	expect(t, ExitOK, "note: left out, as they have ended and hold nothing: 1 Pod", ask("place", ended)...)

	two := in.file("two.yaml", list(onNode("new", "", "2", "Pending")+","+onNode("a", "n1", "2", "Running")+","+onNode("b", "n2", "2", "Running")))
	expect(t, ExitFailure, "the pods name 2 nodes in spec.nodeName: n1 (1 pod), n2 (1 pod): want --pods-of", ask("place", two)...)
	expect(t, ExitFailure, `--pods-of "n3": want a node that pods name in spec.nodeName: n1 (1 pod), n2 (1 pod) (did you mean "n1"?)`, ask("place", two, "--pods-of", "n3")...)
	expect(t, ExitOK, "b     x           0      1,9    -        -\nnew   x           0      2,10", ask("place", two, "--pods-of", "n2")...)
	expect(t, ExitOK, "2", ask("fit", two)...)
	expect(t, ExitOK, "PODS PLACED", "need", "-f", two, oneByTwo, "--kubelet-config", kubelet)
}

// TestPartlyRead: a wrong document does not end the command, but the exit code is 1.
func TestPartlyRead(t *testing.T) {
	in := newInputs(t)
	kubelet := in.file("kubelet.yaml", staticCPUs)
	mixed := in.file("mixed.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: []}}\n---\n"+onNode("good", "", "2", "Pending"))
	for _, verb := range []string{"place", "explain", "fit", "need"} {
		args := []string{verb, "-f", mixed, "--node", oneByTwo, "--kubelet-config", kubelet}
		expect(t, ExitFailure, "note: not read: "+mixed+": document 1: Pod bad: spec.containers", args...)
		expect(t, ExitFailure, "berth: some documents could not be read: the answer does not cover them", args...)
		if verb != "need" {
			expect(t, ExitFailure, "good", args...)
		}
	}
	snapshot := ownedSnapshot(t)
	for _, args := range [][]string{
		{"defrag", "--for", mixed, "--snapshot", snapshot}, {"simulate", "--trace", mixed, "--snapshot", aCluster, "--strategy", "Berth"},
		{"fit", "-f", mixed, "--snapshot", aCluster}, {"fit", "--compare", "-f", mixed, "--snapshot", aCluster},
	} {
		expect(t, ExitFailure, "note: not read: "+mixed+": document 1: Pod bad: spec.containers", args...)
		expect(t, ExitFailure, "berth: some documents could not be read: the answer does not cover them", args...)
	}
	expect(t, ExitFailure, "There is room already", "defrag", "--for", mixed, "--snapshot", snapshot)
	expect(t, ExitFailure, "pods: 1", "simulate", "--trace", mixed, "--snapshot", aCluster, "--strategy", "Berth", "-o", "jsonpath=pods: {.pods}")
	only := in.file("only.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: []}}")
	for _, args := range [][]string{{"place", "-f", only, oneByTwo}, {"defrag", "--for", only, "--snapshot", snapshot}, {"simulate", "--trace", only, "--snapshot", aCluster}} {
		expect(t, ExitFailure, "berth: "+only+": document 1: Pod bad: spec.containers", args...)
	}
}

// TestMisspeltResource: for a resource that no plugin offers, a similar name is proposed.
func TestMisspeltResource(t *testing.T) {
	in := newInputs(t)
	pod := in.pod("p", `{limits: {cpu: 1, memory: 1Gi, nvidia.com/gpus: 1}}`)
	expect(t, ExitFailure, `no device plugin of this node offers nvidia.com/gpus (did you mean "nvidia.com/gpu"?)`, "place", "-f", pod, oneByTwo)
}

// TestPodOfCheckpoint: a pod in the checkpoints is admitted again on its CPUs, and counts once.
func TestPodOfCheckpoint(t *testing.T) {
	in := newInputs(t)
	kubelet := in.file("kubelet.yaml", kubeletHead+"cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")
	in.file("cpu_manager_state", `{"policyName":"static","defaultCpuSet":"0-2","entries":{"a":{"x":"3-7"}}}`)
	pod := in.file("a.yaml", onNode("a", "n1", "5", "Running"))
	expect(t, ExitOK, "x           0      3-7", "place", "-f", pod, "--node", "package:1 numa:1 core:8 pu:1 mem:8Gi", "--kubelet-config", kubelet, "--state", in.dir)
}

// TestMirrorOfCheckpoint: checkpoints name a static pod by its own UID, which its mirror has as an
// annotation. So the mirror is admitted on the static pod's CPUs, and counts once.
func TestMirrorOfCheckpoint(t *testing.T) {
	in := newInputs(t)
	kubelet := in.file("kubelet.yaml", kubeletHead+"cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")
	in.file("cpu_manager_state", `{"policyName":"static","defaultCpuSet":"0-2","entries":{"hash":{"x":"3-7"}}}`)
	mirror := strings.Replace(onNode("a", "n1", "5", "Running"), "uid: a", "uid: a, annotations: {kubernetes.io/config.mirror: hash}", 1)
	expect(t, ExitOK, "x           0      3-7", "place", "-f", in.file("a.yaml", mirror), "--node", "package:1 numa:1 core:8 pu:1 mem:8Gi", "--kubelet-config", kubelet, "--state", in.dir)
}

// TestEndedPodOfCheckpoint: the checkpoints of a kubelet contain a pod that has ended until the
// next admission, which starts with its release. So a pod that -f lists as ended does not count.
func TestEndedPodOfCheckpoint(t *testing.T) {
	in := newInputs(t)
	kubelet := in.file("kubelet.yaml", kubeletHead+"cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")
	in.file("cpu_manager_state", `{"policyName":"static","defaultCpuSet":"0-2","entries":{"a":{"x":"3-7"}}}`)
	next := onNode("b", "n1", "6", "Pending")
	for phase, want := range map[string]string{"Succeeded": "x           0      1-6", "Failed": "x           0      1-6", "Running": "the node has 2 free CPUs (6 needed)"} {
		pods := in.file("pods.yaml", onNode("a", "n1", "5", phase)+"\n---\n"+next)
		code := ExitOK
		if phase == "Running" {
			code = ExitFailure
		}
		expect(t, code, want, "place", "-f", pods, "--node", "package:1 numa:1 core:8 pu:1 mem:8Gi", "--kubelet-config", kubelet, "--state", in.dir)
	}
	expect(t, ExitFailure, "checkpoints may contain pods that are gone", "place", "-f", in.file("pods.yaml", next), "--node", "package:1 numa:1 core:8 pu:1 mem:8Gi", "--kubelet-config", kubelet, "--state", in.dir)
}

// TestInitContainerThatBinds: the second pod's init container gets a CPU of NUMA node 0, and its
// container must be beside it. Without whole CPUs the init container binds it to no NUMA node.
func TestInitContainerThatBinds(t *testing.T) {
	in := newInputs(t)
	kubelet := in.file("kubelet.yaml", kubeletHead+"cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nreservedSystemCPUs: \"0\"\n")
	pods := func(cpu string) string {
		pod := func(name string) string {
			return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {initContainers: [{name: i, image: i, resources: {limits: {cpu: " + cpu +
				", memory: 1Gi}}}], containers: [{name: x, image: i, resources: {limits: {cpu: 5, memory: 1Gi}}}]}}"
		}
		return in.file("pods.yaml", pod("a")+"\n---\n"+pod("b"))
	}
	place := []string{"--node", "package:1 numa:2 core:8 pu:1 mem:8Gi", "--kubelet-config", kubelet}
	expect(t, ExitFailure, "write cpu: 900m instead of 1 in container i, so that it shares CPUs", append([]string{"place", "-f", pods("1")}, place...)...)
	expect(t, ExitOK, "b     x           1      8-12     -", append([]string{"place", "-f", pods("900m")}, place...)...)
}
