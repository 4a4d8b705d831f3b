package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/sampledriver"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// cluster is a cluster with drivers, and one scheduler at a time.
type cluster struct {
	*trial.Cluster
	machines  map[string]*topology.Machine
	drivers   map[driverOf]*sampledriver.Driver
	scheduler *trial.Part
	hook      atomic.Pointer[hook]
}

// driverOf is a driver of a node.
type driverOf struct{ node, name string }

// startCluster starts control plane, nodes and drivers. If it fails, the result has the parts that
// were started.
func startCluster(ctx context.Context, o *options) (c *cluster, err error) {
	c = &cluster{machines: map[string]*topology.Machine{}, drivers: map[driverOf]*sampledriver.Driver{}}
	// The API server accepts lists as values of attributes only with this gate.
	if err := utilfeature.DefaultMutableFeatureGate.Set("DRAListTypeAttributes=true"); err != nil {
		return c, err
	}
	c.Cluster, err = trial.Start(ctx, demo.ClusterOptions{Dir: o.dir, Keep: o.keep, Nodes: specs(), Manifests: trial.Manifests(namespace)})
	if err != nil {
		return c, err
	}
	// Only namespaces with this label may have claims with admin access.
	label := []byte(`{"metadata":{"labels":{"` + resourceapi.DRAAdminNamespaceLabelKey + `":"true"}}}`)
	if _, err := c.Client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		return c, err
	}
	if err := c.ControlPlane.Apply(ctx, manifests()...); err != nil {
		return c, err
	}
	if err := c.StartControllers(ctx); err != nil {
		return c, err
	}
	c.OnStop(func() error { c.stopDrivers(); return nil })
	for i, k := range kinds {
		if c.machines[nodeName(i)], err = topology.Parse(k.machine); err != nil {
			return c, err
		}
		for driver, devices := range k.devices {
			if err := c.startDriver(ctx, driverOf{nodeName(i), driver}, devices); err != nil {
				return c, err
			}
		}
	}
	return c, c.Await(ctx, func(ctx context.Context) bool { return c.published(ctx) == offered() })
}

func (c *cluster) startDriver(ctx context.Context, of driverOf, devices []sample) error {
	node, err := c.Node(of.node)
	if err != nil {
		return err
	}
	user := controlplane.Kubelet(of.node)
	config, err := c.ControlPlane.UserConfig(user.Name, user.Groups)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	o := sampledriver.Options{Name: of.name, Node: of.node, Registry: node.Dir.Registry(), Own: node.Dir.Driver(of.name), Client: client}
	for _, d := range devices {
		o.Devices = append(o.Devices, d.Device)
	}
	c.drivers[of] = sampledriver.New(o)
	return c.drivers[of].Start(ctx)
}

func (c *cluster) stopDrivers() {
	for _, d := range c.drivers {
		d.Stop()
	}
}

// offered returns the number of devices that all drivers offer.
func offered() (n int) {
	for i := range kinds {
		for _, devices := range kinds[i].devices {
			n += len(devices)
		}
	}
	return n
}

// published returns the number of devices in the API.
func (c *cluster) published(ctx context.Context) (n int) {
	list, err := c.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0
	}
	for i := range list.Items {
		n += len(list.Items[i].Spec.Devices)
	}
	return n
}

// dir is the directory of a node.
func (c *cluster) dir(node string) (hollow.Dir, error) {
	p, err := c.Node(node)
	if err != nil {
		return "", err
	}
	return p.Dir, nil
}

// find returns a device of a node.
func find(node, driver, name string) (sample, error) {
	for i := range kinds {
		if nodeName(i) != node {
			continue
		}
		if at := slices.IndexFunc(kinds[i].devices[driver], func(s sample) bool { return s.Name == name }); at >= 0 {
			return kinds[i].devices[driver][at], nil
		}
	}
	return sample{}, fmt.Errorf("node %s has no device %s of driver %s", node, name, driver)
}

// start starts one of the schedulers. Its requests pass through this process. Nodes with authority
// berth are cordoned for kube-scheduler, because they start no container without a decision.
func (c *cluster) start(ctx context.Context, which string) error {
	closed := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, which == stock)
	for _, node := range obeyingNodes() {
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, closed, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	way, err := c.Line(c.forward)
	if err != nil {
		return err
	}
	if which == berth {
		if err := c.StartAgents(ctx); err != nil {
			return err
		}
		c.scheduler, err = c.StartScheduler(trial.Scheduler{Name: berth}, way)
		return err
	}
	s := trial.Scheduler{Dir: c.Dir(), Name: stock}
	flags, err := s.Stock()
	if err := errors.Join(err, controlplane.WriteAccess(s.Access(), way.Access())); err != nil {
		return err
	}
	c.scheduler, err = c.Run(stock, append([]string{demo.VerbKubeScheduler}, flags...)...)
	return err
}

// hook is an action that runs once, before a request of the scheduler is carried out.
type hook struct {
	before func(*http.Request) bool
	// do reports whether the request is carried out afterwards.
	do func() bool
}

func (c *cluster) forward(way *line.Line, out http.ResponseWriter, r *http.Request) {
	if h := c.hook.Load(); h != nil && h.before(r) && c.hook.CompareAndSwap(h, nil) && !h.do() {
		line.Drop()
	}
	way.Forward(out, r)
}

// bindingOf matches requests that write the Binding of a pod whose name ok accepts.
func bindingOf(ok func(pod string) bool) func(*http.Request) bool {
	return func(r *http.Request) bool {
		_, pod, _ := strings.Cut(line.BindingOf(r), "/")
		return pod != "" && ok(pod)
	}
}

// allocationOf matches requests that write the status of a claim of the pod.
func allocationOf(pod string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, claimsPath+pod+"-") && strings.HasSuffix(r.URL.Path, "/status")
	}
}

const claimsPath = "/apis/resource.k8s.io/v1/namespaces/" + namespace + "/resourceclaims/"
