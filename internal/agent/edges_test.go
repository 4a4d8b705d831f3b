package agent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
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
		`{"kubeletconfig":{}}`: "", // evictionHard: {} in the file: no thresholds
		`{"kubeletconfig":{"evictionHard":{"nodefs.available":"3%"},"mergeDefaultEvictionSettings":true}}`: "", // merged by a drop-in, which is too late
		`{"kubeletconfig":{"evictionHard":{"memory.available":"1Gi"}}}`:                                    "1Gi",
	} {
		told = text
		c, err := source.read(t.Context())
		if err != nil || c.EvictionHard == nil || c.EvictionHard["memory.available"] != want || c.MergeDefaultEvictionSettings != nil {
			t.Errorf("%s: got %+v, error %v", text, c, err)
		}
	}
	told = `{"other":{}}`
	if _, err := source.read(t.Context()); err == nil || !strings.Contains(err.Error(), "kubeletconfig is missing") {
		t.Errorf("an answer without kubeletconfig: got error %v", err)
	}
	status = http.StatusForbidden
	if _, err := source.read(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes/configz, or on nodes/proxy if") {
		t.Errorf("forbidden: got error %v", err)
	}
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
	m := shapes.Machine("pu:2 dev:00:01.0,060400,8086:0001,root=00 dev:00:02.0,060400,8086:0001,root=00 dev:01:00.0,060400,10b5:0001,root=00,switch=00:02.0 " +
		"dev:02:00.0,030200,10de:0001,root=00,switch=01:00.0 dev:02:00.1,020000,15b3:0001,root=00,pf=02:00.2,name=eth7 dev:02:00.2,020000,15b3:0001,root=00,name=eth0 " +
		"dev:02:00.3,010802,8086:0001 dev:02:00.4,010601,8086:0001 dev:02:00.5,120000,8086:0001 link:nvlink=1,02:00.0+02:00.5|02:00.0+00:01.0")
	want := "dev:01:00.0,060400,10b5:0001,root=00,switch=00:02.0 dev:02:00.0,030200,10de:0001,root=00,switch=01:00.0 " +
		"dev:02:00.1,020000,15b3:0001,root=00,pf=02:00.2 dev:02:00.2,020000,15b3:0001,root=00,name=eth0 " +
		"dev:02:00.3,010802,8086:0001 dev:02:00.5,120000,8086:0001 link:nvlink=1,02:00.0+02:00.5"
	got := reported(m, nil)
	if err := got.Check(); err != nil || got.DeviceString() != want {
		t.Errorf("got %s, %v\nwant %s", got.DeviceString(), err, want)
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
		"c/d": {{ID: "w", NUMA: 1 << 63, HasTopology: true}}, // on NUMA nodes that no machine has
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// receive waits for an event, and fails the test if none comes.
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
	events, stop, err := watchFiles(root, filepath.Join(root, "device-plugins"))
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
	// The directory of device plugins is created later.
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

// TestWatchDevicesElsewhere: a kubelet with another root directory keeps device plugins elsewhere.
func TestWatchDevicesElsewhere(t *testing.T) {
	root, devices := t.TempDir(), t.TempDir()
	events, stop, err := watchFiles(root, devices)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	writeFile(t, filepath.Join(devices, kubeletSocket), "")
	receive(t, events.Restarted, "the kubelet's socket")
	writeFile(t, filepath.Join(devices, filepath.Base(kubeletstate.DeviceFile)), `{"of":"devices"}`)
	receive(t, events.Changed, kubeletstate.DeviceFile)
	writeFile(t, filepath.Join(root, kubeletstate.DeviceFile), `{"of":"root"}`)
	writeFile(t, filepath.Join(root, kubeletstate.CPUFile), "cpus")
	raw, err := kubeletstate.ReadRaw(kubeletstate.Files(os.DirFS(root), os.DirFS(devices)))
	if err != nil || string(raw.Devices) != `{"of":"devices"}` || string(raw.CPU) != "cpus" {
		t.Errorf("read %s and %s, %v", raw.Devices, raw.CPU, err)
	}
}

// TestWatchFilesOfAQuickKubelet: the socket exists before its directory is watched.
func TestWatchFilesOfAQuickKubelet(t *testing.T) {
	root := t.TempDir()
	events, stop, err := watchFiles(root, filepath.Join(root, "device-plugins"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	writeFile(t, filepath.Join(root, "new", kubeletSocket), "")
	if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, "device-plugins")); err != nil {
		t.Fatal(err)
	}
	receive(t, events.Restarted, "the kubelet's socket")
}

// TestLostEventsMayHideAKubeletThatStarted: after an overflow of inotify's queue, everything is
// read again.
func TestLostEventsMayHideAKubeletThatStarted(t *testing.T) {
	w := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
	f := &fileEvents{Changed: make(chan struct{}, 1), Restarted: make(chan struct{}, 1)}
	go f.follow(w, "/devices")
	w.Errors <- fsnotify.ErrEventOverflow
	receive(t, f.Changed, "changes")
	receive(t, f.Restarted, "a kubelet that started")
	close(w.Events)
}

func TestKubeletAge(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "device-plugins", kubeletSocket)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if age := kubeletAge(filepath.Dir(path)); age != 0 {
		t.Errorf("without a kubelet: %v", age)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as after a kubelet that was killed
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	if age := kubeletAge(filepath.Dir(path)); age < time.Hour {
		t.Errorf("of an hour: %v", age)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if age := kubeletAge(filepath.Dir(path)); age != 0 {
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

// TestPodThatCameBackUnderItsName: a list after a break shows the new pod as an update of the old
// one, which is gone.
func TestPodThatCameBackUnderItsName(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: uid}}
	}
	b := newPodBook(DefaultRivals())
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

// TestReportTooLarge: if the API server refuses a report, a small one is written that says so. The
// full report is tried again when it has changed.
func TestReportTooLarge(t *testing.T) {
	resource := schema.GroupResource{Group: "berth.dev", Resource: "nodetopologies"}
	for name, refusal := range map[string]error{
		"a line over its limit": apierrors.NewInvalid(schema.GroupKind{Group: "berth.dev", Kind: "NodeTopology"}, "n1", nil),
		"a body over its limit": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"over etcd's limit":     apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			refusals := 0
			w.refuse = func(nt *v1alpha1.NodeTopology) error {
				if len(nt.Status.Pods) == 0 {
					return nil
				}
				refusals++
				return fmt.Errorf("apply: %w", refusal)
			}
			w.see("a", corev1.PodRunning)
			w.cpus("0-1,4-7", map[string]string{"a": "2-3"})
			w.admitted("a")
			w.steps(200)
			if got := w.ready(); !strings.HasPrefix(got, "False TooLarge: the API server refuses the report of this node's allocations: ") {
				t.Errorf("%s", got)
			}
			if writes := len(w.writes); refusals != 1 || writes != 2 {
				t.Errorf("%d refusals and %d writes, want 1 and 2: a report, and the small one", refusals, writes)
			}
			w.clock = w.clock.Add(refusedFor)
			if w.steps(200); refusals != 2 {
				t.Errorf("%d refusals after %v, want 2: a definition may have been mended", refusals, refusedFor)
			}
			w.refuse = nil
			w.see("b", corev1.PodRunning)
			w.admitted("a", "b")
			w.settle()
			w.wantReady(v1alpha1.ReasonConsistent, "")
		})
	}
	w := newWorld(t)
	w.refuse = func(*v1alpha1.NodeTopology) error { return apierrors.NewForbidden(resource, "n1", errors.New("no")) }
	if w.steps(50); w.m.out.refused.nt != nil {
		t.Error("a write that is forbidden is taken for too large")
	}
}
