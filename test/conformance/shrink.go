package conformance

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/test/replay/cases"
)

// Shrink returns the smallest case that it finds for which bad still returns true: with fewer
// events, pods, containers, resources, devices, nodes, cores and options. It calls bad at most
// budget times and never changes c.
func Shrink(c *cases.Case, budget int, bad func(*cases.Case) bool) *cases.Case {
	s := &shrinker{best: clone(c), left: budget, bad: bad}
	for s.round() && s.left > 0 {
	}
	return s.best
}

type shrinker struct {
	best *cases.Case
	left int
	bad  func(*cases.Case) bool
}

// clone copies a case deeply, by writing and reading it.
func clone(c *cases.Case) *cases.Case {
	line, err := cases.Encode(c)
	if err != nil {
		return c
	}
	out, err := cases.DecodeCase(line)
	if err != nil {
		return c
	}
	return out
}

// try changes a copy of the best case and keeps it if it is still bad.
func (s *shrinker) try(change func(*cases.Case)) bool {
	if s.left <= 0 {
		return false
	}
	c := clone(s.best)
	change(c)
	if c.Check() != nil {
		return false
	}
	s.left--
	if !s.bad(c) {
		return false
	}
	s.best = c
	return true
}

// round tries every kind of reduction once and reports whether one succeeded.
func (s *shrinker) round() bool {
	smaller := false
	for _, step := range []func() bool{s.events, s.nodes, s.pools, s.config, s.containers, s.resources, s.cores, s.hugePages} {
		smaller = step() || smaller
	}
	return smaller
}

// list drops runs of elements, long runs first. It calls length again after every success.
func (s *shrinker) list(length func(*cases.Case) int, drop func(c *cases.Case, from, to int)) bool {
	smaller := false
	for size := length(s.best); size > 0; size /= 2 {
		for from := length(s.best) - size; from >= 0; from -= size {
			if s.try(func(c *cases.Case) { drop(c, from, from+size) }) {
				smaller = true
				from = min(from, length(s.best))
			}
		}
	}
	return smaller
}

func (s *shrinker) events() bool {
	return s.list(func(c *cases.Case) int { return len(c.Events) }, func(c *cases.Case, from, to int) {
		c.Events = slices.Delete(c.Events, from, min(to, len(c.Events)))
	})
}

func (s *shrinker) nodes() bool {
	return s.list(func(c *cases.Case) int { return len(c.Machine.Nodes) }, func(c *cases.Case, from, to int) {
		c.Machine.Nodes = slices.Delete(c.Machine.Nodes, from, to)
		for i := range c.Machine.Nodes {
			if d := &c.Machine.Nodes[i].Distances; len(*d) >= to {
				*d = slices.Delete(*d, from, to)
			}
		}
	})
}

func (s *shrinker) cores() bool {
	smaller := false
	for i := range s.best.Machine.Nodes {
		smaller = s.list(func(c *cases.Case) int { return len(c.Machine.Nodes[i].Cores) }, func(c *cases.Case, from, to int) {
			c.Machine.Nodes[i].Cores = slices.Delete(c.Machine.Nodes[i].Cores, from, to)
		}) || smaller
	}
	return smaller
}

func (s *shrinker) hugePages() bool {
	smaller := false
	for i := range s.best.Machine.Nodes {
		smaller = s.list(func(c *cases.Case) int { return len(c.Machine.Nodes[i].HugePages) }, func(c *cases.Case, from, to int) {
			c.Machine.Nodes[i].HugePages = slices.Delete(c.Machine.Nodes[i].HugePages, from, to)
		}) || smaller
	}
	return smaller
}

func (s *shrinker) pools() bool {
	smaller := s.list(func(c *cases.Case) int { return len(c.Devices) }, func(c *cases.Case, from, to int) {
		c.Devices = slices.Delete(c.Devices, from, to)
	})
	for i := range s.best.Devices {
		smaller = s.list(func(c *cases.Case) int { return len(c.Devices[i].Devices) }, func(c *cases.Case, from, to int) {
			c.Devices[i].Devices = slices.Delete(c.Devices[i].Devices, from, to)
		}) || smaller
	}
	return smaller
}

func (s *shrinker) config() bool {
	smaller := false
	for _, options := range []func(*cases.Case) map[string]string{
		func(c *cases.Case) map[string]string { return c.Config.CPUManagerPolicyOptions },
		func(c *cases.Case) map[string]string { return c.Config.TopologyManagerPolicyOptions },
	} {
		for _, name := range slices.Sorted(maps.Keys(options(s.best))) {
			smaller = s.try(func(c *cases.Case) { delete(options(c), name) }) || smaller
		}
	}
	smaller = s.list(func(c *cases.Case) int { return len(c.Config.ReservedMemory) }, func(c *cases.Case, from, to int) {
		c.Config.ReservedMemory = slices.Delete(c.Config.ReservedMemory, from, to)
	}) || smaller
	if s.best.Config.MemoryManagerPolicy == "Static" {
		smaller = s.try(func(c *cases.Case) { c.Config.MemoryManagerPolicy, c.Config.ReservedMemory = "None", nil }) || smaller
	}
	if s.best.Config.CPUManagerPolicy == "static" {
		smaller = s.try(func(c *cases.Case) { c.Config.CPUManagerPolicy, c.Config.CPUManagerPolicyOptions = "none", nil }) || smaller
	}
	return smaller
}

// containers drops containers; the last app container stays.
func (s *shrinker) containers() bool {
	smaller := false
	for i := range s.best.Events {
		for _, of := range []func(*corev1.PodSpec) *[]corev1.Container{
			func(p *corev1.PodSpec) *[]corev1.Container { return &p.InitContainers },
			func(p *corev1.PodSpec) *[]corev1.Container { return &p.Containers },
		} {
			smaller = s.list(func(c *cases.Case) int {
				if c.Events[i].Pod == nil {
					return 0
				}
				return len(*of(&c.Events[i].Pod.Spec))
			}, func(c *cases.Case, from, to int) {
				list := of(&c.Events[i].Pod.Spec)
				*list = slices.Delete(*list, from, to)
				spread(c, i)
			}) || smaller
		}
	}
	return smaller
}

// resources drops requests of single containers.
func (s *shrinker) resources() bool {
	smaller := false
	for i := range s.best.Events {
		for j := range eventContainers(s.best, i) {
			for _, of := range []func(*corev1.Container) corev1.ResourceList{
				func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits },
				func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests },
			} {
				for _, name := range slices.Sorted(maps.Keys(of(eventContainers(s.best, i)[j]))) {
					smaller = s.try(func(c *cases.Case) {
						delete(of(eventContainers(c, i)[j]), name)
						spread(c, i)
					}) || smaller
				}
			}
		}
	}
	return smaller
}

// spread copies the pod of event i to other events that offer the same pod.
func spread(c *cases.Case, i int) {
	for j := range c.Events {
		if p := c.Events[j].Pod; j != i && p != nil && p.UID == c.Events[i].Pod.UID {
			c.Events[j].Pod = c.Events[i].Pod.DeepCopy()
		}
	}
}

// eventContainers returns the containers of the pod of event i, if it has one.
func eventContainers(c *cases.Case, i int) []*corev1.Container {
	var out []*corev1.Container
	if pod := c.Events[i].Pod; pod != nil {
		for j := range pod.Spec.InitContainers {
			out = append(out, &pod.Spec.InitContainers[j])
		}
		for j := range pod.Spec.Containers {
			out = append(out, &pod.Spec.Containers[j])
		}
	}
	return out
}
