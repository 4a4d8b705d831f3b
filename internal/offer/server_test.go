package offer

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// kubelet is the part of a kubelet that plugins see: it removes their sockets when it starts, and
// accepts registrations.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir        string
	registered chan *pluginapi.RegisterRequest
	server     *grpc.Server
	t          *testing.T
}

func (k *kubelet) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if _, err := os.Stat(filepath.Join(k.dir, r.Endpoint)); err != nil { // a kubelet would wait for 10 s
		k.t.Errorf("%s is registered with a socket that is not there: %v", r.ResourceName, err)
		return nil, err
	}
	k.registered <- r
	return &pluginapi.Empty{}, nil
}

func startKubelet(t *testing.T, dir string) *kubelet {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // its plugin has removed it
			t.Fatal(err)
		}
	}
	k := &kubelet{dir: dir, registered: make(chan *pluginapi.RegisterRequest, 8), server: grpc.NewServer(), t: t}
	listener, err := net.Listen("unix", filepath.Join(dir, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	pluginapi.RegisterRegistrationServer(k.server, k)
	go k.server.Serve(listener)
	t.Cleanup(k.server.Stop)
	return k
}

// plugin waits for a registration, and returns a client of the plugin.
func (k *kubelet) plugin(t *testing.T) (pluginapi.DevicePluginClient, *pluginapi.RegisterRequest) {
	t.Helper()
	select {
	case r := <-k.registered:
		conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return pluginapi.NewDevicePluginClient(conn), r
	case <-time.After(time.Minute):
		t.Fatal("nobody registers")
		return nil, nil
	}
}

// TestServe: the kubelet gets as many tokens as there are devices, and is told when a device is
// gone. The plugin registers again after a restart of the kubelet.
func TestServe(t *testing.T) {
	pools, err := mustRead(t, "resources: [{resource: a.b/gpu, class: gpu}]").Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	files := tree(map[string]string{pci + "0000:3b:00.0/class": "", pci + "0000:bb:00.0/class": ""})
	o := New(pools, Host{Root: files, SpecDirs: []string{t.TempDir()}}, t.Logf)
	o.Dir = t.TempDir()
	k := startKubelet(t, o.Dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range o.pools { // instead of the looks of Run, because this test changes the files
			o.serve(ctx, o.pools[i].Resource)
		}
	}()
	client, r := k.plugin(t)
	if r.ResourceName != "a.b/gpu" || r.Version != "v1beta1" {
		t.Errorf("registered %+v", r)
	}
	watch, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	want := func(text string) {
		t.Helper()
		list, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range list.Devices {
			got = append(got, d.ID+"="+d.Health)
			if d.Topology != nil {
				t.Errorf("%s has a topology", d.ID)
			}
		}
		if strings.Join(got, " ") != text {
			t.Errorf("told %q, want %q", got, text)
		}
	}
	want("berth-token-0000=Healthy berth-token-0001=Healthy")
	delete(files, pci+"0000:3b:00.0/class")
	o.Look()
	want("berth-token-0000=Healthy berth-token-0001=Unhealthy")

	preferred, err := client.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: []string{"berth-token-0001", "berth-token-0000"}, AllocationSize: 1}}})
	if err != nil || preferred.ContainerResponses[0].DeviceIDs[0] != "berth-token-0000" {
		t.Errorf("prefers %v, %v", preferred, err)
	}
	given, err := client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"berth-token-0000", "berth-token-0001"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if a := given.ContainerResponses[0]; a.Annotations["tokens.berth.dev/a.b_gpu"] != "2" || len(a.Annotations) != 1 || len(a.Devices)+len(a.Envs)+len(a.Mounts)+len(a.CdiDevices) > 0 {
		t.Errorf("gives %v", a)
	}

	more, err := mustRead(t, "resources: [{resource: a.b/gpu, vendor: 10de}, {resource: a.b/odd, class: other, optional: true}]").Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	more[0].Devices = append(more[0].Devices, Device{&topology.Device{Address: "0000:cc:00.0"}, 2})
	files[pci+"0000:cc:00.0/class"] = files[pci+"0000:bb:00.0/class"]
	o.Renew(more)
	want("berth-token-0000=Healthy berth-token-0001=Healthy berth-token-0002=Unhealthy")
	if f, known := findingsOf(o)["0000:cc:00.0"]; !known || f.Sick != "" {
		t.Errorf("of a device that has come: %+v", f)
	}
	o.Renew(pools)
	want("berth-token-0000=Healthy berth-token-0001=Unhealthy")

	k.server.Stop()
	startAgain := startKubelet(t, o.Dir)
	if _, r := startAgain.plugin(t); r.ResourceName != "a.b/gpu" {
		t.Errorf("registered %+v", r)
	}
	cancel()
	<-ended
}

// TestServeBeforeTheKubelet: a plugin starts before its kubelet, and there is a socket of an
// earlier kubelet. It registers with a socket that the kubelet has not removed.
func TestServeBeforeTheKubelet(t *testing.T) {
	pools, err := mustRead(t, "resources: [{resource: a.b/gpu, class: gpu}]").Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	o := New(pools, Host{SpecDirs: []string{t.TempDir()}}, t.Logf)
	o.Dir = t.TempDir()
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(o.Dir, kubeletSocket)})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.serve(ctx, o.pools[0].Resource)
	}()
	conn, err := old.Accept() // it is killed during a registration
	if err != nil {
		t.Fatal(err)
	}
	old.Close()
	conn.Close()
	client, _ := startKubelet(t, o.Dir).plugin(t)
	watch, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := watch.Recv(); err != nil || len(list.Devices) != len(pools[0].Devices) {
		t.Errorf("told %v, %v", list, err)
	}
	cancel()
	<-ended
}

// TestRival: another plugin that offers the same resource, or the same devices, is named.
func TestRival(t *testing.T) {
	pools, err := mustRead(t, "resources: [{resource: example.com/gpu, class: gpu}, {resource: a.b/disk, class: nvme}]").Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		registered map[string][]string
		says       string
	}{
		{nil, ""},
		{map[string][]string{"example.com/gpu": {token(0), token(1)}, "a.b/disk": {}, "x.y/z": {"0"}, "nvidia.com/gpu": {}, "amd.com/gpu": {"0"}}, ""},
		{map[string][]string{"example.com/gpu": {"GPU-1"}}, `another device plugin offers example.com/gpu to the kubelet ("GPU-1" is one of its devices), and Berth offers the same resource`},
		{map[string][]string{"x.y/disks": {"0000:5e:00.0"}}, "another device plugin offers device 0000:5e:00.0 to the kubelet as x.y/disks, and Berth offers the same device"},
		{map[string][]string{"nvidia.com/gpu": {"GPU-1"}}, "another device plugin offers device GPU-1 to the kubelet as nvidia.com/gpu, and Berth offers GPUs of the same vendor"},
	} {
		if got := Rival(pools, c.registered); got != c.says {
			t.Errorf("%v: %q, want %q", c.registered, got, c.says)
		}
	}
}

// TestUnits: if 100 units of a resource are one device, the kubelet has 100 tokens for each. A
// container's annotation has the number of devices. No decision exists for a part of a device.
func TestUnits(t *testing.T) {
	pools, err := mustRead(t, "resources: [{resource: koordinator.sh/gpu, class: gpu}]").Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	files := tree(map[string]string{pci + "0000:3b:00.0/class": "", pci + "0000:bb:00.0/class": ""})
	o := New(pools, Host{Root: files, SpecDirs: []string{t.TempDir()}}, t.Logf)
	o.Dir = t.TempDir()
	k := startKubelet(t, o.Dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.serve(ctx, o.pools[0].Resource)
	}()
	defer func() { cancel(); <-ended }()
	client, _ := k.plugin(t)
	watch, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := watch.Recv()
	if err != nil || len(list.Devices) != 100*len(pools[0].Devices) {
		t.Fatalf("%d tokens for %d devices, %v", len(list.GetDevices()), len(pools[0].Devices), err)
	}
	for tokens, want := range map[int]int{0: 0, 100: 1, 200: 2, 150: -1} {
		ids := make([]string, tokens)
		resp, err := client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.ReadTokens(resp.ContainerResponses[0].Annotations)["koordinator.sh/gpu"]; got != want {
			t.Errorf("%d tokens are %d devices, want %d", tokens, got, want)
		}
	}
}
