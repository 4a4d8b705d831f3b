package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/version"
)

const (
	// oneByTwo is a machine of 16 CPUs and 128 GiB.
	oneByTwo = "package:2 numa:1 core:4 pu:2 mem:64Gi"
	// kubeletHead begins every KubeletConfiguration; staticCPUs is one that pins CPUs.
	kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	staticCPUs  = kubeletHead + "cpuManagerPolicy: static\nreservedSystemCPUs: \"0,8\"\n"
)

// inputs are the files of one test.
type inputs struct {
	t   *testing.T
	dir string
}

func newInputs(t *testing.T) inputs { return inputs{t, t.TempDir()} }

func (in inputs) file(name, text string) string {
	in.t.Helper()
	path := filepath.Join(in.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		in.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		in.t.Fatal(err)
	}
	return path
}

// pod writes a Pod of one container with these resources.
func (in inputs) pod(name, resources string) string {
	return in.file(name+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+
		"}\nspec: {containers: [{name: x, resources: "+resources+"}]}\n")
}

// expect runs a command line and compares its exit code and output with the expected ones. The
// output of both streams must have the text.
func expect(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, stdout, stderr := run(t, args...)
	if got != code || !strings.Contains(stdout+stderr, want) {
		t.Errorf("%q: exit code %d, want %d; want %q in\n%s%s", args, got, code, want, stdout, stderr)
	}
}

// TestTotals: the total amounts of the node count, as in the kubelet's admission.
func TestTotals(t *testing.T) {
	in := newInputs(t)
	burst := in.pod("burst", `{requests: {cpu: "1000", memory: 4Ti}}`)
	expect(t, ExitFailure, "the node has 16 free CPUs of 16 in total, but the pod asks for 1000 (OutOfcpu)", "place", "-f", burst, oneByTwo)
	expect(t, ExitFailure, "do: ask for at most 16 CPUs in total, or use nodes that have more", "place", "-f", burst, oneByTwo)
	half := func(memory string) string { return in.pod("half", `{limits: {cpu: 500m, memory: `+memory+`}}`) }
	expect(t, ExitFailure, "do: ask for at most 127.9Gi memory in total, or use nodes that have more", "place", "-f", half("134217729Ki"), oneByTwo)
	expect(t, ExitOK, "half", "place", "-f", half("127.9Gi"), oneByTwo) // a memory size according to the advice
	expect(t, ExitFailure, "OutOfcpu: Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: 16000",
		"explain", "-f", burst, "--node", oneByTwo)
	config := in.file("kubeadm.yaml", kubeletHead+"kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {memory: 1Gi}\n")
	expect(t, ExitFailure, "the node has 125.9Gi free memory of 125.9Gi in total, but the pod asks for 1000Gi (OutOfmemory)", "place", "-f",
		in.pod("big", `{limits: {cpu: "4", memory: 1000Gi}}`), oneByTwo, "--kubelet-config", config)
	// 15500m of 16 CPUs are left, so that 2 CPUs fit 7 times. Pods that share CPUs count for later
	// pods.
	expect(t, ExitOK, "two   7        -: 7", "fit", "-f", in.pod("two", `{requests: {cpu: "2", memory: 4Gi}}`), oneByTwo, "--kubelet-config", config)
	expect(t, ExitOK, "half   1        -: 1", "fit", "-f", in.pod("half", `{limits: {cpu: 15500m, memory: 1Gi}}`), oneByTwo, "--kubelet-config", config)
	most := in.pod("most", `{requests: {cpu: "15"}}`)
	expect(t, ExitFailure, "the node has 0.5 free CPUs of 15.5 in total, but the pod asks for 2 (OutOfcpu)",
		"place", "-f", most, "-f", in.pod("two", `{requests: {cpu: "2"}}`), oneByTwo, "--kubelet-config", config)
	// Reserved CPU ids replace reserved amounts, and pinned pods count as well.
	static := in.file("static.yaml", staticCPUs)
	expect(t, ExitFailure, "the node has 2 free CPUs of 14 in total, but the pod asks for 3 (OutOfcpu)", "place",
		"-f", in.pod("pinned", `{limits: {cpu: "12", memory: 1Gi}}`), "-f", in.pod("three", `{requests: {cpu: "3"}}`), oneByTwo, "--kubelet-config", static)
	over := in.file("over.yaml", kubeletHead+"kubeReserved: {memory: 1Ti}\n")
	expect(t, ExitFailure, `kubeReserved[memory]: "1Ti": want less: kubeReserved, systemReserved and the eviction threshold together reserve`, "place", "-f", most, oneByTwo, "--kubelet-config", over)
	over = in.file("over.yaml", kubeletHead+"systemReserved: {memory: 2Ti}\n")
	expect(t, ExitFailure, `systemReserved[memory]: "2Ti": want less: kubeReserved`, "place", "-f", most, oneByTwo, "--kubelet-config", over)
}

// TestShares: explain shows why a pod gets no exclusive CPUs.
func TestShares(t *testing.T) {
	in := newInputs(t)
	static, memory := in.file("static.yaml", staticCPUs), in.file("memory.yaml", kubeletHead+
		"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n")
	for _, c := range []struct{ resources, config, want string }{
		{"{requests: {cpu: 2}, limits: {memory: 1Gi}}", static, "\nshares: the pod is not Guaranteed (container x has no limit of cpu), so it gets no exclusive CPUs and no pinned memory\n"},
		{"{limits: {cpu: 1500m, memory: 1Gi}}", static, "\nshares: x: 1500m is not a whole number of CPUs, so the container gets no exclusive CPUs: want 1 or 2\n"},
		{"{limits: {cpu: 2, memory: 1Gi}}", memory, "\nshares: the kubelet gives no exclusive CPUs, because its cpuManagerPolicy is none\n"},
		{"{limits: {cpu: 2, memory: 1Gi}}", static, ""},
		{"{limits: {cpu: 1500m, memory: 1Gi}}", in.file("none.yaml", kubeletHead), ""},
	} {
		code, stdout, stderr := run(t, "explain", "-f", in.pod("p", c.resources), "--node", oneByTwo, "--kubelet-config", c.config)
		if code != ExitOK || strings.Contains(stdout, "shares:") != (c.want != "") || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", c.resources, code, c.want, stdout, stderr)
		}
	}
	managed := staticCPUs + "featureGates: {PodLevelResourceManagers: true}\ntopologyManagerScope: pod\n"
	none, restricted := in.file("managed.yaml", managed), in.file("restricted.yaml", managed+"topologyManagerPolicy: restricted\n")
	for _, c := range []struct{ spec, config, want string }{
		{"resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: x}]", static, "because it has spec.resources: only a kubelet with the feature gate PodLevelResourceManagers"},
		{"resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: x}]", none, "otherwise to containers with whole CPUs and limits equal to requests\n"},
		{"resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]", none, ""},
		{"resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: x}]", restricted, ""},
		{"resources: {limits: {cpu: 1500m, memory: 1Gi}}, containers: [{name: x}]", restricted, "spec.resources: 1500m is not a whole number of CPUs, so the pod gets no exclusive CPUs\n"},
		{"resources: {limits: {cpu: 1500m, memory: 1Gi}}, containers: [{name: x}]", static, "spec.resources: 1500m is not a whole number of CPUs, so the pod gets no exclusive CPUs\n"},
		{"resources: {requests: {cpu: 1500m, memory: 1Gi}, limits: {cpu: 1500m, memory: 1Gi}}, containers: [{name: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]", static, "only a kubelet with the feature gate"},
		{"resources: {limits: {cpu: 4, memory: 1Gi}}, containers: [{name: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]", restricted, "the pod is not Guaranteed (spec.resources requests less than its limits)"},
		{"resources: {requests: {cpu: 2, memory: 1Gi}}, containers: [{name: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]", restricted, ""},
		{"resources: {limits: {cpu: 4}}, containers: [{name: x, resources: {limits: {cpu: 2}}}]", static, "the pod is not Guaranteed (spec.resources has no limit of memory)"},
	} {
		pod := in.file("whole.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {"+c.spec+"}\n")
		code, stdout, stderr := run(t, "explain", "-f", pod, "--node", oneByTwo, "--kubelet-config", c.config, "--guard=false")
		if code != ExitOK || strings.Contains(stdout, "\nshares:") != (c.want != "") || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", c.spec, code, c.want, stdout, stderr)
		}
	}
}

// TestReservedCPUs: a kubelet does not start with reservedSystemCPUs that the machine lacks, or
// that its parser does not accept. Its policies do not matter.
func TestReservedCPUs(t *testing.T) {
	in := newInputs(t)
	pod := in.pod("p", "{limits: {cpu: 2, memory: 1Gi}}")
	for _, policy := range []string{"", "cpuManagerPolicy: static\n"} {
		for list, want := range map[string]string{
			"0,16": `reservedSystemCPUs: "0,16": want CPUs that the machine has: 0-15: the kubelet would not start`,
			"0, 1": `reservedSystemCPUs: "0, 1": want a list of CPUs and ranges without blanks, like 0-1,32-33: the kubelet would not start`,
		} {
			config := in.file("kubelet.yaml", kubeletHead+policy+"reservedSystemCPUs: "+list+"\n")
			expect(t, ExitFailure, want, "place", "-f", pod, oneByTwo, "--kubelet-config", config)
		}
	}
	expect(t, ExitFailure, `want CPUs that the machine has: 0-15`, "need", "-f", pod, oneByTwo, "--set", "cpuManagerPolicy=none,reservedSystemCPUs=16")
}

func TestOperatingSystem(t *testing.T) {
	in := newInputs(t)
	windows := in.file("w.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {os: {name: windows}, containers: [{name: x}]}")
	expect(t, ExitFailure, "(PodOSNotSupported)", "place", "-f", windows, oneByTwo)
	selected := in.file("s.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: s}\nspec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: x}]}")
	expect(t, ExitFailure, "(NodeAffinity)", "place", "-f", selected, oneByTwo)
	claims := in.file("c.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: {resourceClaims: [{name: g, resourceClaimName: g}], containers: [{name: x}]}")
	expect(t, ExitOK, "note: pod c: spec.resourceClaims are not looked at", "place", "-f", claims, oneByTwo)
}

// TestWhatIsNotLookedAt: a note names each part of a pod that is not checked.
func TestWhatIsNotLookedAt(t *testing.T) {
	in := newInputs(t)
	for spec, want := range map[string]string{
		"{volumes: [{name: d, persistentVolumeClaim: {claimName: d}}], containers: [{name: x}]}":      "note: pod p: volumes are not looked at, and may tie it to certain nodes: d",
		"{nodeSelector: {a: b}, containers: [{name: x}]}":                                             "note: pod p: node selectors and affinity are not looked at",
		"{affinity: {podAntiAffinity: {}}, containers: [{name: x}]}":                                  "note: pod p: affinity to other pods and spreading are not looked at",
		"{topologySpreadConstraints: [{maxSkew: 1}], containers: [{name: x}]}":                        "note: pod p: affinity to other pods and spreading are not looked at",
		"{containers: [{name: x, resources: {limits: {deviceclass.resource.kubernetes.io/gpu: 1}}}]}": "note: pod p: deviceclass.resource.kubernetes.io/gpu is not looked at: the node's devices of Dynamic Resource Allocation",
		"{containers: [{name: x}, {name: z, image: i}]}":                                              "note: containers without an image",
	} {
		file := in.file("p.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: "+spec)
		expect(t, ExitOK, want, "place", "-f", file, oneByTwo)
	}
	quiet := in.file("q.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {volumes: [{name: e, emptyDir: {}}], containers: [{name: x, image: i}]}")
	if _, _, stderr := run(t, "place", "-f", quiet, oneByTwo); strings.Contains(stderr, "pod q") || strings.Contains(stderr, "image") {
		t.Errorf("nothing is to be said of an ordinary pod: %s", stderr)
	}
}

// TestHostPorts: the kubelet gives each port of the node only once.
func TestHostPorts(t *testing.T) {
	in := newInputs(t)
	pod := func(name, spec string) string {
		return in.file(name+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+"}\nspec: "+spec)
	}
	a := pod("a", "{containers: [{name: x, image: i, ports: [{containerPort: 80, hostPort: 8080}]}]}")
	expect(t, ExitFailure, "requested pod ports: 127.0.0.1:8080/TCP (NodePorts)", "place", "-f", a,
		"-f", pod("b", "{containers: [{name: x, image: i, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]}]}"), oneByTwo)
	expect(t, ExitOK, "\nc ", "place", "-f", a, "-f", pod("c", "{containers: [{name: x, image: i, ports: [{containerPort: 80, hostPort: 8080, protocol: UDP}]}]}"), oneByTwo)
	expect(t, ExitFailure, "0.0.0.0:8080/TCP (NodePorts)", "place", "-f", a, "-f", pod("d", "{hostNetwork: true, containers: [{name: x, image: i, ports: [{containerPort: 8080}]}]}"), oneByTwo)
	expect(t, ExitOK, "-: 1            Predicate NodePorts failed", "fit", "-f", a, oneByTwo)
}

// TestImpossibleMachines: impossible values are refused, with the reason.
func TestImpossibleMachines(t *testing.T) {
	in := newInputs(t)
	p := in.pod("p", `{limits: {cpu: "4", memory: 1000Gi}}`)
	for machine, want := range map[string]string{
		"package:2 numa:1 core:4 pu:2 mem:64":                        `want at least 1Mi for each NUMA node, such as mem:64Gi`,
		"package:2 numa:1 core:4 pu:2 huge:2Mi=1":                    "mem:SIZE too",
		"package:2 numa:1 core:4 pu:2 mem:64Gi huge:2Mi=40000":       "to fit into the NUMA node's memory",
		"package:2 numa:1 core:4 pu:2 mem:64Gi huge:2Mi=99999999999": "to fit into the NUMA node's memory",
		"package:2 numa:1 core:4 pu:2 mem:64GB":                      `mem: "64GB": want a number of bytes below`,
		"package:2 numa:1 core:4":                                    "pu:1, or pu:2",
		"package:2 nuna:1 core:4 pu:2":                               `did you mean "numa"?`,
	} {
		expect(t, ExitFailure, want, "place", "-f", p, machine)
	}
	expect(t, ExitOK, "note: the machine has no memory size", "place", "-f", p, "package:2 numa:1 core:4 pu:2")
}

// TestUnderflow: if a NUMA node reserves more memory than it has, the kubelet treats it as
// unlimited.
func TestUnderflow(t *testing.T) {
	in := newInputs(t)
	config := in.file("ku.yaml", staticCPUs+`memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
kubeReserved: {memory: 2Gi}
reservedMemory: [{numaNode: 0, limits: {memory: 2148Mi}}]
`)
	args := []string{"place", "-f", in.pod("p", `{limits: {cpu: "4", memory: 50Gi}}`), "--kubelet-config", config, "--node"}
	expect(t, ExitFailure, "KubeletDefect", append(args, "package:2 numa:1 core:4 pu:2 mem:2Gi,64Gi")...)
	expect(t, ExitOK, "50Gi on 0", append(args, "package:2 numa:1 core:4 pu:2 mem:2Gi,64Gi", "--guard=false")...)
	expect(t, ExitOK, "50Gi on 1", append(args, "package:2 numa:1 core:4 pu:2 mem:4Gi,64Gi")...)
	for _, verb := range []string{"place", "explain", "fit"} {
		args[0] = verb
		expect(t, ExitFailure, "no memory size: want mem:SIZE", append(args, "package:2 numa:1 core:4 pu:2")...)
	}
	state := in.file("memory_manager_state", `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"hugepages-2Mi":{}},"cells":[0]},"1":{}},"checksum":0}`)
	expect(t, ExitFailure, `huge: "missing": want all sizes of huge pages`, "check", state, "--kubelet-config", config, "--node", "package:2 numa:1 core:4 pu:2 mem:4Gi", "--kubelet-version", "1.36")
}

// TestPolicyOfThePod: place gives the same answer as the cluster.
func TestPolicyOfThePod(t *testing.T) {
	in := newInputs(t)
	config := in.file("k.yaml", staticCPUs+"topologyManagerPolicy: best-effort\n")
	pod := func(policy string) string {
		return in.file(policy+".yaml", `{apiVersion: v1, kind: Pod, metadata: {name: t, annotations: {berth.dev/policy: `+policy+
			`}}, spec: {containers: [{name: x, resources: {limits: {cpu: "10", memory: 1Gi}}}]}}`)
	}
	expect(t, ExitFailure, "the pod's berth.dev/policy asks for single-numa-node (PolicyNotKept)",
		"place", "-f", pod("single-numa-node"), "--node", oneByTwo, "--kubelet-config", config)
	expect(t, ExitOK, "0-1", "place", "-f", pod("single-numa-node"), "--node", oneByTwo, "--kubelet-config", config, "--guard=false")
	expect(t, ExitOK, "0-1", "place", "-f", pod("best-effort"), "--node", oneByTwo, "--kubelet-config", config)
	theirs := in.file("theirs.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: t, annotations: {scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy":"SingleNUMANode"}'}},
		spec: {containers: [{name: x, resources: {limits: {cpu: "10", memory: 1Gi}}}]}}`)
	expect(t, ExitFailure, "the pod's scheduling.koordinator.sh/numa-topology-spec asks for single-numa-node,scope=pod (PolicyNotKept)",
		"place", "-f", theirs, "--node", oneByTwo, "--kubelet-config", config)
	expect(t, ExitFailure, `metadata.annotations[berth.dev/policy]: "singel": want none`, "place", "-f", pod("singel"), "--node", oneByTwo)
}

// TestFiles: several -f, folders, output of helm, and replicas.
func TestFiles(t *testing.T) {
	in := newInputs(t)
	a, b := in.pod("a", "{}"), in.pod("b", "{}")
	code, stdout, _ := run(t, "place", "-f", a, "-f", b, "--node", oneByTwo)
	if code != ExitOK || !strings.Contains(stdout, "\na ") || !strings.Contains(stdout, "\nb ") {
		t.Errorf("two files: exit code %d\n%s", code, stdout)
	}
	expect(t, ExitOK, "\nb ", "place", "-f", in.dir, "--node", oneByTwo)
	in.file("deep/c.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, spec: {replicas: 2, template: {spec: {containers: [{name: x}]}}}}\n---\n{apiVersion: v1, kind: Service}")
	expect(t, ExitOK, "\nc-1 ", "place", "-R", "-f", in.dir, "--node", oneByTwo)
	expect(t, ExitOK, "note: Deployment c: counted as 2 pods\nnote: skipped, as they contain no pods: 1 Service", "place", "-R", "-f", in.dir, "--node", oneByTwo)
}

// TestKubelet: configuration, drop-ins, releases and devices.
func TestKubelet(t *testing.T) {
	in := newInputs(t)
	p := in.pod("p", `{limits: {cpu: "4", memory: 1Gi}}`)
	place := func(config string, more ...string) []string {
		return append([]string{"place", "-f", p, "--node", oneByTwo, "--kubelet-config", in.file("k.yaml", config)}, more...)
	}
	in.file("conf.d/10.conf", kubeletHead+"cpuManagerPolicy: none\n")
	expect(t, ExitOK, "1-2,9-10", place(staticCPUs)...)
	expect(t, ExitOK, "shared", place(staticCPUs, "--kubelet-config-dir", filepath.Join(in.dir, "conf.d"))...)
	// k3s runs its kubelet with drop-ins and flags only.
	expect(t, ExitOK, "1-2,9-10", "place", "-f", p, oneByTwo, "--kubelet-config-dir", filepath.Dir(in.file("k3s/10.conf", staticCPUs)), "--kubelet-flags", "--v=2")
	expect(t, ExitFailure, `want a folder with files that end in .conf`, "place", "-f", p, oneByTwo, "--kubelet-config-dir", filepath.Join(in.dir, "none.d"))
	expect(t, ExitOK, "1-2,9-10", place(staticCPUs+"featureGates: {DefaultPodSysctls: true}\ndefaultPodSysctls: {net.ipv4.ip_forward: \"1\"}\n", "--kubelet-version", "1.37")...)
	expect(t, ExitFailure, "defaultPodSysctls", place(staticCPUs+"defaultPodSysctls: {net.ipv4.ip_forward: \"1\"}\n", "--kubelet-version", "1.36")...)
	expect(t, ExitFailure, "NUMA node 9: want one of the machine's NUMA nodes, 0-1", place(staticCPUs, "--device", "nvidia.com/gpu=0:4,9:4")...)
	expect(t, ExitFailure, `unrecognized feature gate: CPUManagr`, place(staticCPUs+"featureGates: {CPUManagr: false}\n")...)
	expect(t, ExitOK, "1-2,9-10", place(`{"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "featureGates": {"AzureWorkloadIdentity": true}}}`)...)
	expect(t, ExitFailure, `cannot set feature gate CPUManagerPolicyOptions to false, feature is locked to true`,
		place(staticCPUs+"featureGates: {CPUManagerPolicyOptions: false}\n")...)
	expect(t, ExitFailure, `full-pcpus-only`, place(staticCPUs+"cpuManagerPolicyOptions: {full-pcpu-only: \"true\"}\n")...)
	expect(t, ExitFailure, `want a string in quotes: "true"`, place(staticCPUs+"cpuManagerPolicyOptions: {full-pcpus-only: true}\n")...)
	expect(t, ExitFailure, "104857600", place(staticCPUs+"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n")...)
}

// TestDevices: a scheduler does not place a pod on a node that does not offer its devices.
func TestDevices(t *testing.T) {
	in := newInputs(t)
	p := in.pod("p", "{limits: {nvidia.com/gpu: 2}}")
	expect(t, ExitFailure, "no device plugin of this node offers nvidia.com/gpu", "place", "-f", p, "--node", oneByTwo)
	expect(t, ExitOK, "shared", "place", "-f", p, "--node", oneByTwo, "--ignore-missing-devices")
	expect(t, ExitOK, "nvidia.com/gpu 0-0,0-1", "place", "-f", p, "--node", oneByTwo, "--device", "nvidia.com/gpu=0:2,1:2")
}

// TestFit: the exit code is 1 if no copy fits. If only the number of pods is limited, the answer
// comes quickly.
func TestFit(t *testing.T) {
	in := newInputs(t)
	expect(t, ExitFailure, "none", "fit", "-f", in.pod("none", `{requests: {cpu: "17"}}`), oneByTwo)
	many := in.file("many.yaml", kubeletHead+"maxPods: 2000000000\n")
	began := time.Now()
	expect(t, ExitOK, "1000000   -: 1000000      the limit was reached; only the number of pods limits it",
		"fit", "-f", in.pod("free", "{}"), oneByTwo, "--limit", "1000000", "--kubelet-config", many)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a million copies that pin nothing took %s", took)
	}
	expect(t, ExitOK, "free   110      -: 110          the node has 110 pods, and admits at most 110 (OutOfpods)",
		"fit", "-f", in.pod("free", "{}"), oneByTwo)
}

// TestDidYouMean: mistyped words, and values of flags.
func TestDidYouMean(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{`unknown command "topolgy" (did you mean "topology"?)`, []string{"topolgy"}},
		{`unknown command "plcae" (did you mean "place"?)`, []string{"help", "plcae"}},
		{`(did you mean "--kubelet-config"?)`, []string{"place", "--kubelt-config", "x"}},
		{`--limit "abc": want a whole number`, []string{"fit", "--limit", "abc"}},
		{`--nodes "xyz": want a whole number`, []string{"explain", "p", "--nodes", "xyz"}},
		{`--seed "x": want a whole number`, []string{"simulate", "--seed", "x"}},
		{`--hours "x": want a number`, []string{"simulate", "--hours", "x"}},
		{`--more "n=x": want NAME=COUNT`, []string{"simulate", "--more", "n=x"}},
		{"--filename is empty: want a value, or leave it out", []string{"place", "-f", ""}},
		{"--state is empty", []string{"place", "-f", "testdata/pods.yaml", "--state", ""}},
		{"--kubelet-config is empty", []string{"fit", "-f", "testdata/pods.yaml", "--kubelet-config="}},
		{"--snapshot is empty", []string{"nodes", "--snapshot", ""}},
		{"--heartbeat-namespace is empty", []string{"nodes", "--heartbeat-namespace", ""}},
		{"--strategy is empty", []string{"simulate", "--strategy", ""}},
		{"--set is empty", []string{"need", "-f", "testdata/pods.yaml", oneByTwo, "--set", ""}},
		{`--set "topologyManagerScope=pod": topologyManagerScope is given twice: want each key once`,
			[]string{"need", "-f", "testdata/pods.yaml", oneByTwo, "--set", "topologyManagerScope=container,topologyManagerScope=pod"}},
		{"pods p -A: want -n with the namespace of the pod, or no pod", []string{"pods", "p", "-A"}},
		{"explain p --state: want --state only with -f", []string{"explain", "p", "--state", "/var/lib/kubelet"}},
		{"explain -f testdata/pods.yaml --nodes: want --nodes only with POD", []string{"explain", "-f", "testdata/pods.yaml", "--nodes", "2"}},
		{"explain -f testdata/pods.yaml --snapshot: want --snapshot only with POD", []string{"explain", "-f", "testdata/pods.yaml", "--snapshot", "c.berth"}},
		{"explain -f testdata/pods.yaml --claims: want --claims only with POD", []string{"explain", "-f", "testdata/pods.yaml", "--claims", "required"}},
		{"--stale-after applies only to a cluster: leave out the machine", []string{"fit", "-f", "testdata/pods.yaml", oneByTwo, "--stale-after", "5m"}},
		{"topology --snapshot: want --snapshot only with node/NAME", []string{"topology", oneByTwo, "--snapshot", "c.berth"}},
		{"--hold-image i: want --execute too", []string{"defrag", "p", "--hold-image", "i"}},
		{`did you mean "yaml"?`, []string{"place", "-f", "testdata/pods.yaml", "-o", "ymal"}},
	} {
		expect(t, ExitUsage, c.want, c.args...)
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		expect(t, ExitOK, ", Kubernetes "+version.Base+", kubelets 1.33 to 1.37", args...)
	}
}

// TestEmptyCheckpoint: the error says that the file is empty.
func TestEmptyCheckpoint(t *testing.T) {
	in := newInputs(t)
	expect(t, ExitFailure, "the file is empty", "check", in.file("cpu_manager_state", ""))
}

// TestReusedMemory: an init container whose memory is reused has no memory of its own.
func TestReusedMemory(t *testing.T) {
	in := newInputs(t)
	config := in.file("k.yaml", staticCPUs+"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n")
	pod := in.file("p.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {
initContainers: [{name: i, resources: {limits: {cpu: "1", memory: 1Gi}}}], containers: [{name: x, resources: {limits: {cpu: "2", memory: 2Gi}}}]}}`)
	code, stdout, stderr := run(t, "place", "-f", pod, "--node", oneByTwo, "--kubelet-config", config)
	if code != ExitOK || strings.Contains(stdout, "0 on 0,") || strings.Contains(stdout, " 0 on") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
