package agent

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfigFileAndDropIns(t *testing.T) {
	dir := t.TempDir()
	file, drop := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "conf.d")
	writeFile(t, file, "kind: KubeletConfiguration\ncpuManagerPolicy: none\nkubeReserved: {cpu: 100m, memory: 1Gi}\nreservedSystemCPUs: \"0\"\n")
	writeFile(t, filepath.Join(drop, "20.conf"), "kind: KubeletConfiguration\nreservedSystemCPUs: \"0-1\"\nkubeReserved: {cpu: 200m}\n")
	writeFile(t, filepath.Join(drop, "10.conf"), "cpuManagerPolicy: static\nreservedSystemCPUs: \"5\"\n")
	writeFile(t, filepath.Join(drop, "sub", "30.conf"), "kubeReserved: {memory: null}\n")
	writeFile(t, filepath.Join(drop, "40.yaml"), "cpuManagerPolicy: none\n") // not a .conf
	c, err := ConfigFile(file, drop).read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.CPUManagerPolicy != "static" || c.ReservedSystemCPUs != "0-1" || !reflect.DeepEqual(c.KubeReserved, map[string]string{"cpu": "200m"}) {
		t.Errorf("got policy %q, reserved %q, %v", c.CPUManagerPolicy, c.ReservedSystemCPUs, c.KubeReserved)
	}
	if c, err = ConfigFile(file, filepath.Join(dir, "absent")).read(t.Context()); err != nil || c.CPUManagerPolicy != "none" {
		t.Errorf("without drop-ins: %v, error %v", c, err)
	}
}

func TestConfigFileRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kind.yaml":   "kind: Pod\n",
		"broken.yaml": "cpuManagerPolicy: [\n",
		"type.yaml":   "cpuManagerPolicy: {a: b}\n",
		"large.yaml":  strings.Repeat("#", maxConfigBytes+1),
	} {
		path := filepath.Join(dir, name)
		writeFile(t, path, text)
		if _, err := ConfigFile(path, "").read(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v, want one that names the file", name, err)
		}
	}
	if _, err := ConfigFile(filepath.Join(dir, "absent"), "").read(t.Context()); err == nil {
		t.Error("an absent file is no default")
	}
}

func TestConfigz(t *testing.T) {
	status, told := http.StatusOK, `{"kubeletconfig":{"cpuManagerPolicy":"static"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(told))
	}))
	defer server.Close()
	source := Configz(server.Client(), server.URL)
	if c, err := source.read(t.Context()); err != nil || c.CPUManagerPolicy != "static" {
		t.Errorf("got %v, error %v", c, err)
	}
	for text, want := range map[string]string{
		`{"kubeletconfig":{}}`: "", // evictionHard: {} in its file: no thresholds
		`{"kubeletconfig":{"evictionHard":{"nodefs.available":"3%"},"mergeDefaultEvictionSettings":true}}`: "", // by a drop-in, too late
		`{"kubeletconfig":{"evictionHard":{"memory.available":"1Gi"}}}`:                                    "1Gi",
	} {
		told = text
		c, err := source.read(t.Context())
		if err != nil || c.EvictionHard == nil || c.EvictionHard["memory.available"] != want || c.MergeDefaultEvictionSettings != nil {
			t.Errorf("%s: got %+v, error %v", text, c, err)
		}
	}
	told = `{"other":{}}`
	if _, err := source.read(t.Context()); err == nil {
		t.Error("an answer without kubeletconfig: no error")
	}
	status = http.StatusForbidden
	if _, err := source.read(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes/configz") {
		t.Errorf("forbidden: got error %v", err)
	}
}

func FuzzMergedConfig(f *testing.F) {
	f.Add("cpuManagerPolicy: static", "kubeReserved: {cpu: 1}")
	f.Fuzz(func(t *testing.T, base, patch string) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "a"), base)
		writeFile(t, filepath.Join(dir, "d", "b.conf"), patch)
		_, _ = ConfigFile(filepath.Join(dir, "a"), filepath.Join(dir, "d")).read(context.Background())
	})
}

func TestGates(t *testing.T) {
	got := gatesOf(map[string]bool{"CPUManagerPolicyAlphaOptions": true, "TopologyManagerPolicyBetaOptions": false, "GracefulNodeShutdown": true})
	if len(got) != 2 || !got["CPUManagerPolicyAlphaOptions"] {
		t.Errorf("got %v", got)
	}
	if gatesOf(map[string]bool{"GracefulNodeShutdown": true}) != nil {
		t.Error("gates that do not matter make no map")
	}
}

func TestReportedDevices(t *testing.T) {
	got := reportedDevices([]topology.Device{{Class: "030200"}, {Class: "060400"}, {Class: "020000"}, {Class: "010802"}, {Class: "010601"}, {Class: "120000"}})
	if len(got) != 4 {
		t.Errorf("got %+v, want GPU, network, NVMe, accelerator", got)
	}
}

func TestDevicesOf(t *testing.T) {
	node := func(ids ...int64) *podresources.TopologyInfo {
		info := &podresources.TopologyInfo{}
		for _, id := range ids {
			info.Nodes = append(info.Nodes, &podresources.NUMANode{ID: id})
		}
		return info
	}
	got := devicesOf([]*podresources.ContainerDevices{
		{ResourceName: "a/b", DeviceIds: []string{"x", "y"}, Topology: node(0)},
		{ResourceName: "a/b", DeviceIds: []string{"x"}, Topology: node(3)},
		{ResourceName: "a/b", DeviceIds: []string{"z"}},
		{ResourceName: "c/d", DeviceIds: []string{"w"}, Topology: node(-1, 64, 1<<40)},
	})
	want := map[string][]placement.Device{
		"a/b": {{ID: "x", NUMA: 9, HasTopology: true}, {ID: "y", NUMA: 1, HasTopology: true}, {ID: "z"}},
		"c/d": {{ID: "w", NUMA: 1 << 63, HasTopology: true}}, // on nodes, none of which a machine has
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// receive waits for an event; not receiving one fails the test.
func receive(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("no event for %s", what)
	}
}

func TestWatchFiles(t *testing.T) {
	root := t.TempDir()
	events, stop, err := watchFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	replace := func(name string) {
		writeFile(t, filepath.Join(root, ".new"), "x")
		if err := os.Rename(filepath.Join(root, ".new"), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.AdmittedFile} {
		replace(name)
		receive(t, events.Changed, name)
	}
	// The directory of device plugins comes later.
	if err := os.Mkdir(filepath.Join(root, "device-plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	receive(t, events.Changed, "the new directory")
	replace(kubeletstate.DeviceFile)
	receive(t, events.Changed, kubeletstate.DeviceFile)
	replace("device-plugins/" + kubeletSocket)
	receive(t, events.Restarted, "the kubelet's socket")
	replace("something-else")
	replace(kubeletstate.CPUFile)
	receive(t, events.Changed, "the last change")
}

// TestWatchFilesOfAQuickKubelet: its socket is there before its directory is watched.
func TestWatchFilesOfAQuickKubelet(t *testing.T) {
	root := t.TempDir()
	events, stop, err := watchFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	writeFile(t, filepath.Join(root, "new", kubeletSocket), "")
	rename(t, filepath.Join(root, "new"), filepath.Join(root, "device-plugins"))
	receive(t, events.Restarted, "the kubelet's socket")
}

func TestKubeletAge(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "device-plugins", kubeletSocket)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if age := kubeletAge(root); age != 0 {
		t.Errorf("without a kubelet: %v", age)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as a kubelet that is killed leaves it
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	if age := kubeletAge(root); age < time.Hour {
		t.Errorf("of an hour: %v", age)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if age := kubeletAge(root); age != 0 {
		t.Errorf("of a kubelet that has left its socket behind: %v", age)
	}
}

func TestOptionsRefuse(t *testing.T) {
	for _, tc := range []struct {
		opts Options
		want string
	}{
		{Options{}, "Node is empty"},
		{Options{Node: "n"}, "Client is nil"},
		{Options{Node: "n", Client: &rest.Config{}, Heartbeat: -1}, "Heartbeat"},
	} {
		if err := Run(t.Context(), tc.opts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got error %v, want %q", err, tc.want)
		}
	}
	if err := Run(t.Context(), Options{Node: "n", Client: &rest.Config{Host: "http://127.0.0.1:1"}, Root: "/nonexistent"}); err == nil {
		t.Error("a root directory that is not there: no error")
	}
}

func TestBracketed(t *testing.T) {
	for url, want := range map[string]string{
		"https://fd00::7:10250/configz":   "https://[fd00::7]:10250/configz",
		"https://[fd00::7]:10250/configz": "https://[fd00::7]:10250/configz",
		"https://10.0.0.7:10250/configz":  "https://10.0.0.7:10250/configz",
		"https://node-7:10250/configz":    "https://node-7:10250/configz",
		"https://node-7/configz":          "https://node-7/configz",
		"::1":                             "::1",
	} {
		if got := bracketed(url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

// TestPodThatCameBackUnderItsName: a list that comes after a break tells of it as of a change. The one before has left.
func TestPodThatCameBackUnderItsName(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: uid}}
	}
	b := newPodBook()
	b.see(pod("first"), now)
	b.change(pod("first"), pod("second"), now)
	all := b.all()
	if first := all["first"]; first.ended.IsZero() || first.apiUID != "" {
		t.Errorf("the first is still there: %+v", first)
	}
	if second := all["second"]; !second.ended.IsZero() || second.apiUID != "second" {
		t.Errorf("the second is not: %+v", second)
	}
}

// TestEvictionBeforeDropIns: the thresholds that the file leaves out are filled in before drop-ins replace single ones.
func TestEvictionBeforeDropIns(t *testing.T) {
	for _, tc := range []struct{ file, drop, want string }{
		{"{}", "", "100Mi"},
		{"{}", `{"evictionHard":{"nodefs.available":"3%"}}`, "100Mi"},
		{"{}", `{"evictionHard":{"memory.available":"1Gi"}}`, "1Gi"},
		{"{}", `{"evictionHard":{"memory.available":null}}`, ""},
		{"{}", `{"evictionHard":null}`, ""},
		{`{"evictionHard":null}`, "", "100Mi"},
		{`{"evictionHard":{"nodefs.available":"3%"}}`, "", ""},
		{`{"evictionHard":{"nodefs.available":"3%"},"mergeDefaultEvictionSettings":true}`, "", "100Mi"},
		{`{"evictionHard":{"nodefs.available":"3%"}}`, `{"mergeDefaultEvictionSettings":true}`, ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"file": tc.file, "d/1.conf": tc.drop} {
			if text == "" {
				continue
			}
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := ConfigFile(filepath.Join(dir, "file"), filepath.Join(dir, "d")).read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := c.EvictionHard["memory.available"]; got != tc.want || c.EvictionHard == nil || tc.drop != "" && c.MergeDefaultEvictionSettings != nil {
			t.Errorf("%s and %s: memory.available %q, want %q; %+v", tc.file, tc.drop, got, tc.want, c.EvictionHard)
		}
	}
}
