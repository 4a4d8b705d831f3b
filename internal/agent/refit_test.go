package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/enforce"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

// resizedPod returns a pod with a decision of this generation.
func resizedPod(t *testing.T, uid string, generation uint64, cpus string) *corev1.Pod {
	t.Helper()
	p := wire.Placement{Sequence: 1, Generation: generation, Authority: placement.AuthorityBerth, Decision: placement.Decision{UID: uid,
		Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}, CPUs: shapes.CPUs(cpus), Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 1 << 30}}}}}}
	text, err := wire.WritePlacement(&p)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid), Annotations: map[string]string{wire.PlacementAnnotation: text}}}
}

// TestDecisionsAreRemembered: the newest decision of a resized pod is kept when the agent restarts.
// Older decisions are ignored, and so are those that do not belong to the pod.
func TestDecisionsAreRemembered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var told, took []string
	start := func() *decisions {
		took = nil
		s := &decisions{dir: dir, complain: func(err error) { told = append(told, err.Error()) }}
		if err := s.follow(func(uid string, d enforce.Decided) {
			took = append(took, fmt.Sprint(uid, " ", d.Generation, " ", d.Containers[0].CPUs))
		}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := func(what, want string) {
		t.Helper()
		if got := strings.Join(took, ", "); got != want {
			t.Errorf("%s: took %q, want %q", what, got, want)
		}
	}
	s := start()
	s.see(resizedPod(t, "a", 1, "1-2"))
	want("the Binding's", "")
	s.see(resizedPod(t, "a", 2, "1-3"))
	s.see(resizedPod(t, "a", 2, "1-3"))
	s.see(resizedPod(t, "a", 4, "1"))
	s.see(resizedPod(t, "a", 3, "1-6"))
	s.see(resizedPod(t, "b", 2, "4"))
	want("newer ones", "a 2 1-3, a 4 1, b 2 4")
	forged := resizedPod(t, "c", 2, "5")
	forged.UID = "d"
	s.see(forged)
	mirror := resizedPod(t, "e", 2, "5")
	mirror.Annotations[corev1.MirrorPodAnnotationKey] = "x"
	s.see(mirror)
	want("another pod's", "a 2 1-3, a 4 1, b 2 4")
	if len(told) != 2 || !strings.Contains(told[0], errOlder.Error()) || !strings.Contains(told[1], "a placement cannot be copied") {
		t.Errorf("told %q", told)
	}
	s = start()
	if len(took) != 2 || !strings.Contains(strings.Join(took, ", "), "a 4 1") {
		t.Errorf("after a restart: %q", took)
	}
	s.see(resizedPod(t, "a", 3, "1-6"))
	s.prune(func(uid string) bool { return uid == "a" })
	start()
	want("b has left", "a 4 1")

	name := filepath.Join(dir, decisionsFile.name)
	if err := os.WriteFile(name, []byte(`{"a":"{}","b":`+strings.TrimSpace(fmt.Sprintf("%q", resizedPod(t, "b", 2, "4").Annotations[wire.PlacementAnnotation]))+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	start()
	want("one cannot be read", "b 2 4")
	for what, text := range map[string]string{"no JSON": "x", "nothing": "", "a list": "[]"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &decisions{dir: dir}
		if err := s.follow(nil); err == nil || !strings.Contains(err.Error(), "want a file that the agent wrote") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", name); err != nil {
		t.Fatal(err)
	}
	if err := (&decisions{dir: dir}).follow(nil); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("a link: %v", err)
	}

	told = nil
	homeless := &decisions{complain: func(err error) { told = append(told, err.Error()) }}
	if err := homeless.follow(func(string, enforce.Decided) { t.Error("a decision is taken that cannot be kept") }); err != nil {
		t.Error(err)
	}
	homeless.see(resizedPod(t, "a", 2, "1-3"))
	if len(told) != 1 || !strings.Contains(told[0], "--state-dir is empty") {
		t.Errorf("told %q", told)
	}
}

// TestResizedPodsAreReadBack: the report lists released CPUs as the container's until its cgroup no
// longer has them, and released memory until the limit is lowered.
func TestResizedPodsAreReadBack(t *testing.T) {
	books, err := enforce.NewBooks(shapes.Machine("package:1 numa:1 core:8 pu:1 mem:8Gi"), shapes.CPUs("0"), enforce.Hold)
	if err != nil {
		t.Fatal(err)
	}
	p := enforce.NewPlugin(books, t.Logf)
	dir := t.TempDir()
	e := &enforcer{opts: &Options{Enforce: EnforceOptions{Cgroups: dir}, Now: time.Now}, changed: func() {}}
	e.set(p, nil, nil)
	cgroup := func(cpus, limit string) {
		t.Helper()
		at := filepath.Join(dir, "kubepods", "a")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cpuset.cpus.effective": cpus, "cpuset.mems.effective": "0", "memory.max": limit} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	pod := resizedPod(t, "a", 1, "1-4")
	c := &api.Container{Id: "c", PodSandboxId: "s", Name: "main", Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/a"}}
	sandbox := &api.PodSandbox{Id: "s", Uid: "a", Name: "a", Namespace: "ns", Annotations: pod.Annotations}
	if _, _, err := p.CreateContainer(t.Context(), sandbox, c); err != nil {
		t.Fatal(err)
	}
	if err := p.PostStartContainer(t.Context(), sandbox, c); err != nil {
		t.Fatal(err)
	}
	want := func(what, cpus string, bytes, generation uint64) {
		t.Helper()
		o := e.look()
		got := o.pods["a"][0]
		if got.CPUs != shapes.CPUs(cpus) || got.Memory[0].Bytes != bytes || o.generations["a"] != generation || len(o.astray) > 0 {
			t.Errorf("%s: %+v of generation %d, astray %q; want CPUs %s and %d bytes", what, got, o.generations["a"], o.astray, cpus, bytes)
		}
	}
	cgroup("1-4", "1073741824")
	want("as it was bound", "1-4", 1<<30, 0)
	small := placement.ContainerDecision{Name: "main", CPUs: shapes.CPUs("1"), Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 1 << 29}}}
	p.Decide("a", enforce.Decided{Generation: 2, Containers: []placement.ContainerDecision{small}})
	want("decided", "1-4", 1<<30, 2)
	cgroup("1", "max")
	want("no limit is known", "1", 1<<30, 2)
	cgroup("1", "1073741824")
	want("the limit is high", "1", 1<<30, 2)
	cgroup("1", "536870912")
	want("it is low", "1", 1<<29, 2)
}
