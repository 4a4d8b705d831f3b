package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	theirs "github.com/berth-dev/berth/test/volcano"
)

// contestant is a scheduler with its differences from the demo.
type contestant struct {
	demo.Scheduler
	// argument is an argument of its command line.
	argument string
	// running is its process; nil for schedulers that the demo starts itself.
	running interface{ Ended() error }
	// agent changes the options of the agents; nil changes nothing.
	agent func(*agent.Options)
	// node changes a node, change a pod; nil for nothing.
	node   func(*hollow.Spec) error
	change func(*corev1.Pod)
}

// ended is the error with which the scheduler has ended; nil while it runs.
func (s *contestant) ended() error {
	if s.running == nil {
		return nil
	}
	return s.running.Ended()
}

// named gives pods the name of the scheduler.
func named(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulerName = name }
}

// contestant returns the scheduler of the flag -scheduler.
func (q *question) contestant() (*contestant, error) {
	name, path, given := strings.Cut(q.scheduler, "=")
	if q.source != "" && name != "volcano" && name != "koord" {
		return nil, fmt.Errorf("-source %s: want this flag only with -scheduler volcano or koord", q.source)
	}
	if q.controller != "" && name != "volcano" {
		return nil, fmt.Errorf("-controller %s: want this flag only with -scheduler volcano", q.controller)
	}
	switch name {
	case "stock", "berth":
		if given {
			return nil, fmt.Errorf("-scheduler %s: want no program: this scheduler is part of this binary", q.scheduler)
		}
		if name == "stock" {
			return &contestant{Scheduler: demo.Stock{}, argument: demo.VerbKubeScheduler}, nil
		}
		return &contestant{Scheduler: demo.Berth{}, argument: demo.VerbBerthScheduler}, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	p := &program{path: path, source: q.source}
	s := &contestant{running: p, argument: path}
	switch name {
	case "volcano":
		v := &theirs.Scheduler{Program: path, Controller: q.controller, Source: q.source}
		s.Scheduler, s.running, s.agent, s.change = volcano{v}, v, theirs.Numatopologies, theirs.NamePod
	case "nrt":
		s.Scheduler, s.agent, s.change = &nrtMatch{p, "LeastNUMANodes"}, resourceTopologies, named(nrtName)
	case "nrt-alloc":
		s.Scheduler, s.agent, s.change = &nrtMatch{p, "LeastAllocated"}, resourceTopologies, named(nrtName)
	case "koord":
		s.Scheduler, s.node, s.change = &koordinator{p}, koordinatorLabel, named(koordinatorName)
	default:
		return nil, fmt.Errorf("-scheduler %q: want stock, berth, or NAME=PROGRAM with a NAME of volcano, nrt, nrt-alloc, koord", q.scheduler)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("-scheduler %s: want %s=PROGRAM with an executable file", q.scheduler, name)
	}
	return s, nil
}

// program is a scheduler's program and the folder with its source.
type program struct {
	path, source string
	process      *child.Process
}

// Predicts implements demo.Scheduler.
func (p *program) Predicts() bool { return false }

// Ended is the error with which the program has ended; nil while it runs.
func (p *program) Ended() error {
	if p.process == nil {
		return nil
	}
	return p.process.Ended()
}

// read returns a file of the source.
func (p *program) read(path ...string) ([]byte, error) {
	if p.source == "" {
		return nil, fmt.Errorf("-source: want the folder with the source of %s", p.path)
	}
	return os.ReadFile(filepath.Join(append([]string{p.source}, path...)...))
}

// kubeconfig writes a kubeconfig with the rights of an administrator, and returns its path.
func (p *program) kubeconfig(c *demo.Cluster) (string, error) {
	path := filepath.Join(c.Dir(), "scheduler.kubeconfig")
	return path, c.ControlPlane.WriteKubeconfig(path, controlplane.User{Name: filepath.Base(p.path), Groups: controlplane.Admin.Groups})
}

// start starts the program, and returns a function that kills it. On SIGTERM some programs exit
// with an error.
func (p *program) start(c *demo.Cluster, args ...string) (stop func() error, err error) {
	p.process, err = child.Start(child.Spec{
		Name: filepath.Base(p.path), Foreign: true, Log: filepath.Join(c.Dir(), "scheduler.log"), Argv: append([]string{p.path}, args...),
	})
	if err != nil {
		return nil, err
	}
	return func() error { p.process.Kill(); return nil }, nil
}

// agents are the manifests that Berth's agents need, without Berth's policies, which the API server
// would evaluate for each pod.
func agents(more ...string) (out [][]byte, err error) {
	for _, file := range append([]string{"crds/berth.dev_nodetopologies.yaml", "rbac/namespace.yaml", "rbac/agent.yaml"}, more...) {
		folder, name, _ := strings.Cut(file, "/")
		data, err := fs.ReadFile(deploy.Folder(folder), name)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}
