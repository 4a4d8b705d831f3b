package hollow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	internalapi "k8s.io/cri-api/pkg/apis"
	critest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubemark"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"

	"github.com/berth-dev/berth/internal/sampleplugin"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// startLimit is the maximum time until the kubelet's managers run.
const startLimit = 2 * time.Minute

// Run runs the node described in dir until ctx ends. It must be called at most once in a process.
// Some of the kubelet's goroutines cannot be stopped, so end the process when Run returns. The
// kubelet logs to standard error.
func Run(ctx context.Context, dir Dir) error {
	spec, err := dir.ReadSpec()
	if err != nil {
		return err
	}
	setKubeletVersion()
	if err := logVerbosely(); err != nil {
		return fmt.Errorf("node %s: %w", spec.Name, err)
	}
	n, err := newNode(ctx, dir, spec)
	if err != nil {
		return fmt.Errorf("node %s: %w", spec.Name, err)
	}
	if err := n.run(ctx); err != nil {
		return fmt.Errorf("node %s: %w", spec.Name, err)
	}
	return nil
}

type node struct {
	dir     Dir
	spec    *Spec
	config  *kubeletconfig.KubeletConfiguration
	manager *manager
	kubelet *kubemark.HollowKubelet
}

func newNode(ctx context.Context, dir Dir, spec *Spec) (*node, error) {
	info, err := machineInfo(spec)
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir, spec: spec}
	if n.config, err = loadConfig(ctx, dir, spec); err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(dir.DevicePlugins(), 0o700), os.MkdirAll(n.config.PodLogsDir, 0o700), writeConfig(dir, n.config)); err != nil {
		return nil, err
	}
	if n.manager, err = newManager(dir, spec.Name, n.config, info); err != nil {
		return nil, err
	}
	client, heartbeat, err := clients(dir, n.config)
	if err != nil {
		return nil, err
	}
	if n.manager.claims, err = dra.NewManager(klog.Background(), client, dir.Root()); err != nil {
		return nil, fmt.Errorf("DRA manager: %w", err)
	}
	runtime, err := newRuntime(dir, spec)
	if err != nil {
		return nil, err
	}
	n.kubelet = kubemark.NewHollowKubelet(flags(dir, spec), n.config, client, heartbeat,
		&cadvisor{info: info}, critest.NewFakeImageService(), runtime, n.manager)
	n.kubelet.KubeletDeps.HostUtil = hostUtil{hostutil.NewFakeHostUtil(nil)}
	return n, nil
}

// hostUtil lets containers mount a subPath of a volume. Before the kubelet creates the folder of a
// subPath, it reads the mode of the volume (makeMounts in pkg/kubelet/kubelet_pods.go). GetMode of
// kubemark's FakeHostUtil returns an error.
type hostUtil struct{ *hostutil.FakeHostUtil }

// GetMode implements hostutil.HostUtils.
func (hostUtil) GetMode(string) (os.FileMode, error) { return 0o755, nil }

func newRuntime(dir Dir, spec *Spec) (internalapi.RuntimeService, error) {
	fake := newFakeRuntime(cmp.Or(spec.StopTime, DefaultStopTime))
	if !spec.NRI {
		return fake, nil
	}
	m, err := topology.Parse(spec.Machine)
	if err != nil {
		return nil, err
	}
	return newNRIRuntime(dir, m, fake)
}

func machineInfo(spec *Spec) (*cadvisorapi.MachineInfo, error) {
	m, err := topology.Parse(spec.Machine)
	if err != nil {
		return nil, err
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		return nil, err
	}
	return MachineInfo(view), nil
}

func flags(dir Dir, spec *Spec) *options.KubeletFlags {
	f := options.NewKubeletFlags()
	f.RootDirectory = dir.Root()
	f.HostnameOverride = spec.Name
	f.NodeLabels = spec.Labels
	return f
}

// clients returns the kubelet's two clients. Heartbeats have their own client, so that they never
// wait for other requests.
func clients(dir Dir, cfg *kubeletconfig.KubeletConfiguration) (client, heartbeat *clientset.Clientset, err error) {
	rc, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, nil, err
	}
	rc.UserAgent = "berth-hollow-kubelet"
	rc.ContentType, rc.AcceptContentTypes = cfg.ContentType, cfg.ContentType+",application/json"
	rc.QPS, rc.Burst = float32(cfg.KubeAPIQPS), int(cfg.KubeAPIBurst)
	if client, err = clientset.NewForConfig(rc); err != nil {
		return nil, nil, err
	}
	hc := rest.CopyConfig(rc)
	hc.QPS = -1
	hc.Timeout = min(cfg.NodeStatusUpdateFrequency.Duration, time.Duration(cfg.NodeLeaseDurationSeconds)*time.Second)
	heartbeat, err = clientset.NewForConfig(hc)
	return client, heartbeat, err
}

func (n *node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &options.KubeletServer{KubeletFlags: *n.kubelet.KubeletFlags, KubeletConfiguration: *n.kubelet.KubeletConfiguration}
	if err := kubeletapp.RunKubelet(ctx, server, n.kubelet.KubeletDeps); err != nil {
		return err
	}
	if err := n.manager.waitStarted(ctx, startLimit); err != nil {
		return err
	}
	sockets := pluginSockets(n.spec)
	for i, p := range n.spec.Plugins {
		s, err := sampleplugin.Start(ctx, n.dir.DevicePlugins(), sockets[i], p)
		if err != nil {
			return err
		}
		defer s.Stop()
	}
	<-ctx.Done()
	return nil
}
