package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/podgroup"
)

// basics are the objects that Volcano's e2e tests create before their Jobs.
const basics = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: master-pri}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: worker-pri}
value: 1
`

// koordinatorBasics are two of the priority classes that Koordinator installs.
const koordinatorBasics = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: koord-prod}
value: 9000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: koord-batch}
value: 5000
`

// koordinatorName is the scheduler that Koordinator's users name.
const koordinatorName = "koord-scheduler"

// decided are nodes on which Berth decides.
func decided() (out []hollow.Spec) {
	for _, name := range []string{"koord-a", "koord-b"} {
		out = append(out, hollow.Spec{Name: name, Machine: "package:2 numa:1 core:8 pu:2 mem:32Gi,32Gi", NRI: true, StopTime: time.Second,
			KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: \"0\"\n"})
	}
	return out
}

// withKinds is Berth in a cluster in which other projects' kinds are already installed.
type withKinds struct {
	demo.Berth
	kinds [][]byte
}

// Manifests implements demo.Scheduler.
func (w withKinds) Manifests() ([][]byte, error) {
	all, err := w.Berth.Manifests()
	return append(w.kinds, all...), err
}

// nodes returns three large machines, one with GPUs. A Job of the e2e tests names the first.
func nodes() []hollow.Spec {
	spec := func(name string) hollow.Spec {
		return hollow.Spec{Name: name, Machine: "package:2 numa:1 core:24 pu:2 mem:256Gi,256Gi", StopTime: time.Second, KubeletConfig: `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0"
`}
	}
	gpus := hollow.Plugin{Resource: "nvidia.com/gpu", Prefer: true}
	for i := range 8 {
		gpus.Devices = append(gpus.Devices, hollow.Device{ID: fmt.Sprint("gpu-", i)})
	}
	out := []hollow.Spec{spec("xeon-a"), spec("xeon-b"), spec("gpu-a")}
	out[2].Plugins = []hollow.Plugin{gpus}
	return out
}

// cluster is a playground with the observed phases of its Jobs.
type cluster struct {
	*demo.Cluster
	by      string
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	// unpacked is the folder of Volcano's controller; "" for none.
	unpacked string

	mu sync.Mutex
	// spaces counts the namespaces of cases, by the cases' names.
	spaces map[string]int
	// phases are the phases in which Jobs have been seen, by namespace. When a phase is added,
	// changed is closed and replaced.
	phases map[string][]batch.JobPhase
}

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 4 * time.Minute

// startCluster starts a playground in which one of the controllers runs Jobs. The error is
// os.ErrNotExist if Volcano's controller is missing.
func startCluster(ctx context.Context, o *options, by string) (_ *cluster, err error) {
	c := &cluster{by: by, spaces: map[string]int{}, phases: map[string][]batch.JobPhase{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	own, more := nodes(), basics
	if by == byNobody {
		own, more = decided(), koordinatorBasics
	}
	berth, err := c.berth(ctx, o.from)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	up, err := demo.StartPlayground(starting, demo.Options{Own: own, Self: []string{os.Args[0]}, Progress: io.Discard, Keep: o.keep}, berth)
	if err != nil {
		return nil, err
	}
	c.Cluster = up
	if err := c.ControlPlane.Apply(ctx, []byte(more)); err != nil {
		return nil, err
	}
	return c, c.watch(ctx)
}

// berth returns the scheduler, with Volcano's controller or with the kinds of Koordinator.
func (c *cluster) berth(ctx context.Context, from string) (b withKinds, err error) {
	b.Berth = demo.Berth{Jobs: c.by != byNobody}
	b.Names = demo.SchedulerNames
	switch c.by {
	case byVolcano:
		b.Volcano, err = c.unpack(ctx, from)
	case byNobody:
		b.Names = append(slices.Clone(b.Names), koordinatorName)
		b.kinds, err = filesIn(filepath.Join(from, "koordinator-crds"))
	}
	return b, err
}

// filesIn reads the files of a folder.
func filesIn(folder string) (out [][]byte, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// unpack returns Volcano's controller as an executable file.
func (c *cluster) unpack(ctx context.Context, from string) (*demo.VolcanoController, error) {
	packed := filepath.Join(from, "bin", "vc-controller-manager.xz")
	if _, err := os.Stat(packed); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "volcano-")
	if err != nil {
		return nil, err
	}
	c.unpacked = dir
	v := &demo.VolcanoController{Program: filepath.Join(dir, "vc-controller-manager"), Definitions: filepath.Join(dir, "crds")}
	if err := os.CopyFS(v.Definitions, os.DirFS(filepath.Join(from, "volcano-crds"))); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(v.Definitions, "flow.volcano.sh_flows.yaml"), flowKinds(), 0o600); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(v.Program, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return nil, err
	}
	unxz := exec.CommandContext(ctx, "xz", "-dc", packed)
	unxz.Stdout = file
	if err := errors.Join(unxz.Run(), file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", packed, err)
	}
	return v, v.Check()
}

// watch records the phases of all Jobs until the cluster ends.
func (c *cluster) watch(ctx context.Context) (err error) {
	if c.dynamic, err = dynamic.NewForConfig(c.ControlPlane.RESTConfig()); err != nil {
		return err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))
	if c.by == byNobody {
		return nil // the cluster has no Jobs
	}
	ctx, cancel := context.WithCancel(ctx)
	c.OnStop(func() error { cancel(); return nil })
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	jobs := factory.ForResource(batch.Jobs).Informer()
	_, err = jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.note(obj) }, UpdateFunc: func(_, obj any) { c.note(obj) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), jobs.HasSynced) {
		return ctx.Err()
	}
	return nil
}

func (c *cluster) note(obj any) {
	job, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	text, _, _ := unstructured.NestedString(job.Object, "status", "state", "phase")
	phase := batch.JobPhase(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.phases[job.GetNamespace()]
	if phase != "" && (len(seen) == 0 || seen[len(seen)-1] != phase) {
		c.phases[job.GetNamespace()] = append(seen, phase)
	}
}

// stop ends everything.
func (c *cluster) stop() error {
	var err error
	if c.Cluster != nil {
		err = c.Stop()
	}
	return errors.Join(err, os.RemoveAll(c.unpacked))
}

// flowKinds are the definitions of JobFlows. The folder lacks them, but Volcano's controller reads
// the objects.
func flowKinds() []byte {
	flow := schema.GroupVersion{Group: "flow.volcano.sh", Version: "v1alpha1"}
	return slices.Concat(podgroup.Kind(flow, "JobFlow", "Namespaced"), []byte("---"), podgroup.Kind(flow, "JobTemplate", "Namespaced"))
}
