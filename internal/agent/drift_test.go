package agent

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// become changes the machine, without a restart of the kubelet.
func (w *world) become(machine string) {
	w.m.around.fingerprint = func() string { return machine }
	w.m.around.machine = givenMachine(machine)
}

// wantCurrent checks the KubeletCurrent condition of the last report; reason "" means that there is
// none.
func (w *world) wantCurrent(reason string, words ...string) {
	w.t.Helper()
	n := w.last()
	c := meta.FindStatusCondition(n.Report.Conditions, v1alpha1.ConditionKubeletCurrent)
	if c == nil {
		if reason != "" {
			w.t.Errorf("no condition %s, want reason %s", v1alpha1.ConditionKubeletCurrent, reason)
		}
		return
	}
	if c.Status != "False" || c.Reason != reason || c.LastTransitionTime.IsZero() {
		w.t.Errorf("got %+v, want False for reason %q", c, reason)
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			w.t.Errorf("message %q does not have %q", c.Message, word)
		}
	}
}

func TestMachineChangesUnderTheKubelet(t *testing.T) {
	const undone = testMachine
	for _, tc := range []struct {
		name, machine string
		ready         string
		words         []string
	}{
		{"a CPU goes offline", testMachine + " offline:5", v1alpha1.ReasonMachineChanged, []string{"CPUs 5 have gone offline", "undo the change", "delete cpu_manager_state"}},
		{"huge pages are added, memory not pinned", testMachine + " huge:2Mi=64", v1alpha1.ReasonConsistent, []string{"64 huge pages of 2048 KiB, but had 0 when", ": restart the kubelet"}},
		{"memory is taken away", strings.Replace(testMachine, "8Gi", "8Gi,6Gi", 1), v1alpha1.ReasonMachineChanged, []string{"NUMA node 1 has 6144 MiB of memory, but had 8192 MiB when", "undo the change, or restart the kubelet"}},
		{"a little memory is taken away", strings.Replace(testMachine, "8Gi", "8191Mi", 1), "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.become(undone)
			w.settle()
			if w.m.lookAround(t.Context()) {
				t.Error("news though nothing has changed")
			}
			w.wantCurrent("")
			w.become(tc.machine)
			if !w.m.lookAround(t.Context()) {
				t.Fatal("no news of the change")
			}
			w.settle()
			if tc.ready == "" {
				w.wantCurrent("")
				return
			}
			w.wantCurrent(v1alpha1.ReasonMachineChanged, tc.words...)
			w.wantReady(tc.ready, "")
			w.become(undone)
			w.m.lookAround(t.Context())
			w.settle()
			w.wantCurrent("")
			w.wantReady(v1alpha1.ReasonConsistent, "")
		})
	}
}

// TestMachineShrinksWhereBerthDecides: the report is not Ready, although the kubelet pins no
// resources there. Otherwise the scheduler would still assign resources that the node has lost.
func TestMachineShrinksWhereBerthDecides(t *testing.T) {
	const pages = testMachine + " huge:2Mi=64"
	for _, tc := range []struct{ name, before, after, says string }{
		{"a CPU", testMachine, testMachine + " offline:5", "CPUs 5 have gone offline"},
		{"memory", testMachine, strings.Replace(testMachine, "8Gi", "8Gi,6Gi", 1), "NUMA node 1 has 6144 MiB of memory"},
		{"huge pages", pages, testMachine + " huge:2Mi=32", "NUMA node 0 has 32 huge pages of 2048 KiB, but had 64 when"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newObeyingWorld(t)
			w.become(tc.before)
			w.settle()
			w.wantReady(v1alpha1.ReasonConsistent, "")
			w.become(tc.after)
			w.m.lookAround(t.Context())
			w.settle()
			w.wantReady(v1alpha1.ReasonMachineChanged, tc.says)
			if got := w.ready(); !strings.Contains(got, "undo the change, or restart the kubelet") {
				t.Errorf("%s does not say what to do", got)
			}
			w.become(tc.before)
			w.m.lookAround(t.Context())
			w.settle()
			w.wantReady(v1alpha1.ReasonConsistent, "")
		})
	}
}

// TestMachineChangesIntoTheUnknown: earlier changes are still reported when the machine cannot be
// read. Each time, this is logged once.
func TestMachineChangesIntoTheUnknown(t *testing.T) {
	var out strings.Builder
	w := newWorld(t)
	w.m.say.log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.become(testMachine)
	w.settle()
	w.become(testMachine + " offline:5")
	w.m.lookAround(t.Context())
	w.settle()
	w.wantReady(v1alpha1.ReasonMachineChanged, "CPUs 5 have gone offline")
	for range 2 {
		w.m.around.fingerprint = func() string { return "unknown" }
		w.m.around.machine = func() (*topology.Machine, error) {
			return &topology.Machine{NUMANodes: []topology.NUMANode{{ID: topology.MaxNUMANodes}}}, nil
		}
		if !w.m.lookAround(t.Context()) || w.m.lookAround(t.Context()) {
			t.Error("that the machine cannot be read is news, once")
		}
		w.settle()
		w.wantReady(v1alpha1.ReasonMachineChanged, "CPUs 5 have gone offline; the machine has changed, and the agent cannot read it: ")
		w.become(testMachine + " offline:5")
		if !w.m.lookAround(t.Context()) {
			t.Error("that it can be read again is no news")
		}
		w.settle()
		w.wantReady(v1alpha1.ReasonMachineChanged, "CPUs 5 have gone offline: undo")
	}
	if said := strings.Count(out.String(), "the agent cannot read it"); said != 2 {
		t.Errorf("said %d times, want 2:\n%s", said, out.String())
	}
}

// TestMachineGrowsUnderTheKubelet: a running kubelet does not know a CPU that comes online, but the
// next kubelet does.
func TestMachineGrowsUnderTheKubelet(t *testing.T) {
	w := newWorld(t)
	w.become(testMachine + " offline:5")
	w.cpus("0-4,6-7", nil)
	w.settle()
	w.become(testMachine)
	w.m.lookAround(t.Context())
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	w.wantCurrent(v1alpha1.ReasonMachineChanged, "CPUs 5 have come online: drain the node")
	w.cpus("0-7", nil)
	w.m.restarted()
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	w.wantCurrent("")
}

func TestConfigurationChangesUnderTheKubelet(t *testing.T) {
	w := newWorld(t)
	w.settle()
	changed := *w.config
	changed.TopologyManagerPolicy = "best-effort"
	w.config = &changed
	if !w.m.lookAround(t.Context()) {
		t.Fatal("no news of the change")
	}
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	w.wantCurrent(v1alpha1.ReasonConfigurationChanged, "topologyManagerPolicy is best-effort, but was restricted when the kubelet started", "restart the kubelet")
	w.m.restarted()
	w.settle()
	w.wantCurrent("")
	if got := w.last().Spec.Config.TopologyManagerPolicy; got != "best-effort" {
		t.Errorf("policy %q", got)
	}
}

// TestConfigurationOverWhichNoKubeletStarts: a restart would not be sufficient if the checkpoints
// belong to the old configuration.
func TestConfigurationOverWhichNoKubeletStarts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*kubeletv1beta1.KubeletConfiguration)
		want   string
	}{
		{"another policy", func(c *kubeletv1beta1.KubeletConfiguration) { c.CPUManagerPolicy, c.ReservedSystemCPUs = "none", "" }, "undo the change, or drain the node, stop the kubelet, delete cpu_manager_state, start the kubelet"},
		{"strictly reserved", func(c *kubeletv1beta1.KubeletConfiguration) {
			c.CPUManagerPolicyOptions = map[string]string{"strict-cpu-reservation": "true"}
		}, "delete cpu_manager_state"},
		{"another CPU reserved that is shared", func(c *kubeletv1beta1.KubeletConfiguration) { c.ReservedSystemCPUs = "1" }, "restart the kubelet"},
		{"another CPU reserved that is held", func(c *kubeletv1beta1.KubeletConfiguration) { c.ReservedSystemCPUs = "7" }, "delete cpu_manager_state"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.see("a", corev1.PodRunning)
			w.cpus("0-6", map[string]string{"a": "7"})
			w.admitted("a")
			w.settle()
			changed := *w.config
			tc.change(&changed)
			w.config = &changed
			w.m.lookAround(t.Context())
			w.settle()
			w.wantReady(v1alpha1.ReasonConsistent, "")
			w.wantCurrent(v1alpha1.ReasonConfigurationChanged, tc.want)
		})
	}
}

// touch changes a file of the configuration, and lets the agent notice this.
func (w *world) touch() {
	w.t.Helper()
	w.configFiles += "+"
	if w.m.lookAround(w.t.Context()) {
		w.t.Error("news before the file was read")
	}
}

// TestConfigurationThatCannotBeRead: the kubelet still uses the old configuration, and would not
// start with the new one. This is reported only after some time, because the file may be being
// written.
func TestConfigurationThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.m.around.every = time.Hour
	w.m.around.config.fingerprint = func() string { return w.configFiles }
	w.settle()
	w.configErr = errors.New("kubelet.yaml: line 3: did not find expected key")
	w.touch()
	w.clock = w.clock.Add(configSettle)
	if w.m.lookAround(t.Context()) {
		t.Error("told at the first look")
	}
	w.clock = w.clock.Add(configDoubt)
	if !w.m.lookAround(t.Context()) {
		t.Fatal("no news of a file that still cannot be read")
	}
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	w.wantCurrent(v1alpha1.ReasonConfigurationUnreadable, "kubelet.yaml: line 3: did not find expected key", "correct the configuration before")
	w.configErr = nil
	w.touch()
	w.clock = w.clock.Add(configSettle)
	if !w.m.lookAround(t.Context()) {
		t.Fatal("no news of a file that can be read again")
	}
	w.settle()
	w.wantCurrent("")
}

// TestKubeletThatIsAwayTellsNothing: if the configuration comes from the kubelet itself and there
// is no answer, nothing is reported.
func TestKubeletThatIsAwayTellsNothing(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.configErr = errors.New("connection refused")
	for range 3 {
		w.clock = w.clock.Add(w.m.around.every + configDoubt)
		if w.m.lookAround(t.Context()) {
			t.Error("news")
		}
	}
}

// TestConfigurationFileIsWatched: a changed file is read as soon as it has not been written for a
// moment, not only at the next rescan. The report still has the configuration of the running
// kubelet.
func TestConfigurationFileIsWatched(t *testing.T) {
	w := newWorld(t)
	w.m.around.every = time.Hour
	w.m.around.config.fingerprint = func() string { return w.configFiles }
	w.settle()
	changed := *w.config
	changed.TopologyManagerPolicy = "best-effort"
	w.config = &changed
	asked := w.configAsked
	look := func(want bool, when string) {
		t.Helper()
		if got := w.m.lookAround(t.Context()); got != want {
			t.Errorf("%s: news %v, want %v", when, got, want)
		}
	}
	look(false, "before the file was touched")
	w.touch()
	w.clock = w.clock.Add(configSettle)
	w.configFiles += "+"
	look(false, "while the file is being written")
	w.clock = w.clock.Add(configSettle / 2)
	look(false, "right after the file was written")
	if w.configAsked != asked {
		t.Errorf("read %d times while it is being written", w.configAsked-asked)
	}
	w.clock = w.clock.Add(configSettle / 2)
	look(true, "when the file has been left alone")
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	w.wantCurrent(v1alpha1.ReasonConfigurationChanged, "topologyManagerPolicy is best-effort, but was restricted when the kubelet started")
	if got := w.last().Spec.Config.TopologyManagerPolicy; got != "restricted" {
		t.Errorf("policy %q, which the kubelet that runs does not have", got)
	}
	asked = w.configAsked
	look(false, "afterwards")
	if w.configAsked != asked {
		t.Error("read again though nothing was told")
	}
}

// TestKubeletThatStartsIsAskedOften: the kubelet answers some time after it is first noticed.
func TestKubeletThatStartsIsAskedOften(t *testing.T) {
	w := newWorld(t)
	w.settle()
	for range 2 {
		w.m.restarted()
		w.configErr = errors.New("connection refused")
		first := w.m.step(t.Context()).after
		if first > 120*time.Millisecond {
			t.Errorf("asked again after %v", first)
		}
		for range 20 {
			if wait := w.m.step(t.Context()).after; wait <= 0 || wait > 600*time.Millisecond {
				t.Errorf("asked again after %v", wait)
			}
		}
		changed := *w.config
		changed.TopologyManagerPolicy += "-" // each policy is a new one
		w.config, w.configErr = &changed, nil
		w.settle()
		if got := w.last().Spec.Config.TopologyManagerPolicy; got != changed.TopologyManagerPolicy {
			t.Errorf("policy %q, want %q", got, changed.TopologyManagerPolicy)
		}
	}
}

// TestAgentThatStartsLate: the kubelet started before the change, and the agent after it.
func TestAgentThatStartsLate(t *testing.T) {
	w := newWorld(t)
	w.become(testMachine + " offline:5")
	for len(w.writes) == 0 {
		w.steps(1)
	}
	w.wantReady(v1alpha1.ReasonMachineChanged, "cpu_manager_state has CPUs 5, which are offline: undo the change, or drain the node")
}

// TestConfigurationThatIsNewerThanTheKubelet: if an agent starts then, it does not know which
// configuration the kubelet has read, until the kubelet starts again.
func TestConfigurationThatIsNewerThanTheKubelet(t *testing.T) {
	w := newWorld(t)
	start := time.Unix(1_000_000, 0)
	changed := start.Add(time.Minute)
	w.m.around.started = func() time.Time { return start }
	w.m.around.config.newer = func(since time.Time) (out []string) {
		if changed.After(since) {
			out = append(out, "/etc/kubernetes/kubelet.yaml")
		}
		return out
	}
	unsure := func(reason string, words ...string) {
		t.Helper()
		c := meta.FindStatusCondition(w.last().Report.Conditions, v1alpha1.ConditionKubeletCurrent)
		if c == nil || c.Status != "Unknown" || c.Reason != reason {
			t.Fatalf("%+v, want Unknown for reason %s", c, reason)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				t.Errorf("%q does not have %q", c.Message, word)
			}
		}
	}
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	unsure(v1alpha1.ReasonConfigurationNewer, "/etc/kubernetes/kubelet.yaml was changed after the kubelet had started", "restart the kubelet")
	again := *w.config
	again.TopologyManagerPolicy = "best-effort"
	w.config = &again
	if !w.m.lookAround(t.Context()) {
		t.Fatal("no news of another change")
	}
	w.settle()
	unsure(v1alpha1.ReasonConfigurationChanged, "/etc/kubernetes/kubelet.yaml was changed", "topologyManagerPolicy is best-effort")
	start = changed.Add(time.Minute)
	w.m.restarted()
	w.settle()
	w.wantCurrent("")
	w.m.around.started = func() time.Time { return time.Time{} } // no kubelet listens
	w.m.restarted()
	w.settle()
	w.wantCurrent("")
}

func TestMachineFingerprint(t *testing.T) {
	files := fstest.MapFS{
		"sys/devices/system/cpu/online":                                            {Data: []byte("0-7\n")},
		"sys/devices/system/node/online":                                           {Data: []byte("0-1\n")},
		"sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages":    {Data: []byte("64\n")},
		"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages": {Data: []byte("0\n")},
	}
	pulse := MachineFingerprint(files)
	before := pulse()
	if before == "" || pulse() != before {
		t.Fatalf("%q, then %q of the same files", before, pulse())
	}
	for name := range files {
		old := files[name]
		files[name] = &fstest.MapFile{Data: []byte("3\n")}
		if pulse() == before {
			t.Errorf("a change of %s goes unnoticed", name)
		}
		files[name] = old
	}
	if got := MachineFingerprint(fstest.MapFS{})(); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}

// TestChangedSettings changes each field of a KubeletConfiguration that matters for placement, one
// at a time.
func TestChangedSettings(t *testing.T) {
	quantity := func(text string) corev1.ResourceList {
		return corev1.ResourceList{"memory": resource.MustParse(text)}
	}
	base := func() *kubeletv1beta1.KubeletConfiguration {
		return &kubeletv1beta1.KubeletConfiguration{
			CPUManagerPolicy: "static", KubeReserved: map[string]string{"cpu": "1", "ephemeral-storage": "1Gi"},
			ReservedMemory: []kubeletv1beta1.MemoryReservation{{NumaNode: 1, Limits: quantity("1Gi")}, {NumaNode: 0, Limits: quantity("2Gi")}},
		}
	}
	merged := true
	type kubelet = kubeletv1beta1.KubeletConfiguration
	for _, tc := range []struct {
		want   string // "" if no such field has changed
		change func(c *kubelet)
	}{
		{"cpuManagerPolicy is none, but was static", func(c *kubelet) { c.CPUManagerPolicy = "" }},
		{"cpuManagerPolicyOptions is full-pcpus-only=true, but was unset", func(c *kubelet) {
			c.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true"}
		}},
		{"reservedSystemCPUs is 0-1, but was unset", func(c *kubelet) { c.ReservedSystemCPUs = "0-1" }},
		{"kubeReserved is cpu=2, but was cpu=1", func(c *kubelet) { c.KubeReserved = map[string]string{"cpu": "2000m"} }},
		{"systemReserved is memory=1Gi, but was unset", func(c *kubelet) { c.SystemReserved = map[string]string{"memory": "1024Mi"} }},
		{"evictionHard[memory.available] is 200Mi, but was 100Mi", func(c *kubelet) {
			c.EvictionHard = map[string]string{"memory.available": "200Mi"}
		}},
		{"evictionHard[memory.available] is unset, but was 100Mi", func(c *kubelet) {
			c.EvictionHard = map[string]string{"nodefs.available": "1%"}
		}},
		{"memoryManagerPolicy is Static, but was None", func(c *kubelet) { c.MemoryManagerPolicy = "Static" }},
		{"reservedMemory is 0: memory=2Gi; 1: memory=3Gi, but was 0: memory=2Gi; 1: memory=1Gi", func(c *kubelet) {
			c.ReservedMemory[0].Limits = quantity("3Gi")
		}},
		{"topologyManagerPolicy is restricted, but was none", func(c *kubelet) { c.TopologyManagerPolicy = "restricted" }},
		{"topologyManagerScope is pod, but was container", func(c *kubelet) { c.TopologyManagerScope = "pod" }},
		{"topologyManagerPolicyOptions is max-allowable-numa-nodes=9, but was unset", func(c *kubelet) {
			c.TopologyManagerPolicyOptions = map[string]string{"max-allowable-numa-nodes": "9"}
		}},
		{"featureGates is AllBeta=false, CPUManagerPolicyAlphaOptions=true, but was unset", func(c *kubelet) {
			c.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true, "AllBeta": false, "NodeSwap": true}
		}},
		{"", func(c *kubelet) { c.KubeReserved = map[string]string{"cpu": "1000m"} }},
		{"", func(c *kubelet) {
			c.TopologyManagerPolicy, c.TopologyManagerScope, c.MemoryManagerPolicy = "none", "container", "None"
		}},
		{"", func(c *kubelet) { c.CPUManagerPolicyOptions = map[string]string{} }},
		{"", func(c *kubelet) { c.EvictionHard, c.MergeDefaultEvictionSettings = map[string]string{}, &merged }},
		{"", func(c *kubelet) { slices.Reverse(c.ReservedMemory) }},
		{"", func(c *kubelet) { c.MaxPods = 7 }},
	} {
		changed := base()
		tc.change(changed)
		var want []string
		if tc.want != "" {
			want = []string{tc.want + " when the kubelet started"}
		}
		if got := changedSettings(base(), changed); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSettingsAreAllThatIsRead: every named field exists in KubeletConfiguration, and every field
// that is copied to placement.Config is named.
func TestSettingsAreAllThatIsRead(t *testing.T) {
	known := map[string]bool{}
	for f := range reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = true
	}
	named := map[string]bool{}
	for _, s := range settingsOf(&kubeletv1beta1.KubeletConfiguration{}) {
		field, _, _ := strings.Cut(s.field, "[")
		if named[field] = true; !known[field] {
			t.Errorf("no KubeletConfiguration has %s", s.field)
		}
	}
	sources := map[string][]string{ // fields of placement.Config with other names
		"ReservedMilliCPU": {"kubeReserved", "systemReserved"},
		"NodeReserved":     {"kubeReserved", "systemReserved", "evictionHard"},
		// Not from a KubeletConfiguration:
		"Version": nil, "Authority": nil, "GuardDefects": nil, "GuardRestarts": nil, "Strategy": nil, "Default": nil, "Devices": nil, "Providers": nil, "MemoryStays": nil,
	}
	for f := range reflect.TypeFor[placement.Config]().Fields() {
		fields, other := sources[f.Name]
		if rest, cpu := strings.CutPrefix(f.Name, "CPU"); cpu {
			fields = []string{"cpu" + rest}
		} else if !other {
			fields = []string{strings.ToLower(f.Name[:1]) + f.Name[1:]}
		}
		for _, field := range fields {
			if !named[field] {
				t.Errorf("%s of placement.Config comes from %s, which is not compared", f.Name, field)
			}
		}
	}
}

// TestCheckpointIsNotThere: a kubelet that pins resources writes its checkpoints when it starts. If
// they are missing, it has not started.
func TestCheckpointIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.files.CPU = nil
	for len(w.writes) == 0 {
		w.steps(1)
	}
	w.wantReady(v1alpha1.ReasonContradiction, "cpu_manager_state does not exist")
	w.cpus("0-7", nil)
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
}

// TestMisspeltPolicyBesideAMissingCheckpoint: the kubelet does not start because of the policy,
// which explains the missing checkpoint.
func TestMisspeltPolicyBesideAMissingCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.config.TopologyManagerPolicy = "restrictd"
	w.files.CPU = nil
	for len(w.writes) == 0 {
		w.steps(1)
	}
	w.wantReady(v1alpha1.ReasonUnsupported, `topologyManagerPolicy: "restrictd": want none, best-effort, restricted or single-numa-node`)
	w.wantReady(v1alpha1.ReasonUnsupported, "; cpu_manager_state does not exist")
}
