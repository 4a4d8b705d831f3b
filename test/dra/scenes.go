package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// A scene is a situation that a random load does not produce. The scheduler must survive each
// scene, and nothing may be left.
var sceneries = []struct {
	name string
	play func(*stage) error
}{
	{"10,000 devices", (*stage).manyDevices},
	{"attributes that make no sense", (*stage).oddities},
	{"a driver that vanishes before its claim is written", func(s *stage) error { return s.vanish("early", allocationOf("early")) }},
	{"a driver that vanishes before the Binding", func(s *stage) error {
		return s.vanish("late", bindingOf(func(pod string) bool { return pod == "late" }))
	}},
	{"a claim that is deleted in PreBind", (*stage).claimDeleted},
	{"a device that becomes ready late", (*stage).slowDevice},
	{"all devices of a node", (*stage).allDevices},
	{"a gang that needs the devices of several nodes", (*stage).gang},
	{"CPUs that follow a GPU and a card", (*stage).follow},
}

// sceneLimit bounds each wait in a scene.
const sceneLimit = 2 * time.Minute

// stage is the environment of a scene.
type stage struct {
	*driver
	ctx       context.Context
	scheduler string // by the name that pods ask for
}

// scenes runs all scenes and records failures.
func (d *driver) scenes(ctx context.Context, scheduler string) error {
	for _, scene := range sceneries {
		begun := time.Now()
		limited, cancel := context.WithTimeout(ctx, 4*sceneLimit)
		err := scene.play(&stage{d, limited, scheduler})
		cancel()
		d.hook.Store(nil)
		if err != nil {
			d.wrong[scene.name+": "+err.Error()] = true
		}
		fmt.Fprintf(d.out, "%s: %s: %.1fs, ok: %t\n", d.which, scene.name, time.Since(begun).Seconds(), err == nil)
		if err := d.clean(ctx); err != nil {
			return err
		}
	}
	return nil
}

// make creates a pod.
func (s *stage) make(p Pod) error {
	_, err := s.Client.CoreV1().Pods(namespace).Create(s.ctx, p.object(s.scheduler), metav1.CreateOptions{})
	return err
}

// await waits until ok returns true for the pod.
func (s *stage) await(name, what string, limit time.Duration, ok func(*corev1.Pod) bool) (found *corev1.Pod, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	last := "is not there"
	trial.Until(ctx, tick, func() bool {
		if err = s.tick(s.ctx); err != nil {
			return true
		}
		for i := range s.pods {
			if pod := &s.pods[i]; pod.Name == name {
				last = fmt.Sprintf("is %s on node %q: %s", pod.Status.Phase, pod.Spec.NodeName, wire.Unscheduled(pod).Message+pod.Status.Message)
				if ok(pod) {
					found = pod.DeepCopy()
				}
			}
		}
		return found != nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%s is not %s within %v: it %s", name, what, limit, last)
	}
	return found, err
}

func (s *stage) runs(name string, limit time.Duration) (*corev1.Pod, error) {
	return s.await(name, "running", limit, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
}

// demand checks that the devices of a running pod are aligned, if the scheduler aligns devices.
func (s *stage) demand(pod *corev1.Pod, all []sample) error {
	if s.which != berth {
		return nil
	}
	entries, err := s.held(pod.Spec.NodeName, s.pods)
	if err != nil {
		return err
	}
	var devices []sample
	for _, name := range claimsOf(pod) {
		claim, err := s.Client.ResourceV1().ResourceClaims(namespace).Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, r := range results(claim) {
			at := slices.IndexFunc(all, func(d sample) bool { return d.Name == r.Device })
			if at < 0 {
				return fmt.Errorf("%s has device %s, which no driver offered", pod.Name, r.Device)
			}
			devices = append(devices, all[at])
		}
	}
	mine, _ := of(entries, pod, mainContainer)
	if how, which := align(s.machines[pod.Spec.NodeName], mine, devices); how == misaligned || len(devices) == 0 {
		return fmt.Errorf("%s, with %d devices: %s", pod.Name, len(devices), which)
	}
	return nil
}

// offer runs a driver on n0 until withdraw.
func (s *stage) offer(name string, devices []sample) (withdraw func() error, err error) {
	of := driverOf{nodeName(0), name}
	if err := s.startDriver(s.ctx, of, devices); err != nil {
		return nil, err
	}
	count := func(want int) error {
		return s.Await(s.ctx, func(ctx context.Context) bool { return s.published(ctx) == want })
	}
	return func() error {
		if err := s.drivers[of].Publish(s.ctx, nil); err != nil {
			return err
		}
		err := count(offered())
		s.drivers[of].Stop()
		return err
	}, count(offered() + len(devices))
}

// manyDevices: a node has ten thousand devices, and those on the right NUMA node come last.
func (s *stage) manyDevices() error {
	var all []sample
	for i := range 10000 {
		at := 1 - i/5000
		all = append(all, sample{device("many", i, standardNUMA, at), at})
	}
	withdraw, err := s.offer(many, all)
	if err != nil {
		return err
	}
	if err := errors.Join(s.make(Pod{Name: "one", CPUs: 2, Ask: "required", Claims: []string{"many"}}), s.make(Pod{Name: "plain", CPUs: 1, Node: nodeName(0)})); err != nil {
		return err
	}
	pod, err := s.runs("one", sceneLimit)
	if err == nil {
		err = s.demand(pod, all)
	}
	_, plain := s.runs("plain", sceneLimit)
	return errors.Join(err, plain, s.gone(), withdraw())
}

// gone deletes all pods and waits until they are gone.
func (s *stage) gone() error {
	if err := s.Client.CoreV1().Pods(namespace).DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	for range trial.Every(s.ctx, tick) {
		if err := s.tick(s.ctx); err != nil || len(s.pods) == 0 {
			return err
		}
	}
	return s.ctx.Err()
}

// oddities are the devices with strange attributes about their place.
var oddities = []resourceapi.DeviceAttribute{
	{StringValue: new("0")}, {BoolValue: new(true)}, {VersionValue: new("1.0.0")},
	{IntValue: new(int64(99))}, {IntValue: new(int64(1) << 40)}, {IntValue: new(int64(-7))}, {IntValues: []int64{-1}}, {StringValues: []string{"1"}},
}

// oddities: each pod gets a device with a strange attribute, or waits for a reason that names the
// device. A negative number means that the device has no NUMA node, so such a pod runs.
func (s *stage) oddities() error {
	var all []sample
	for i, where := range oddities {
		number := int64(i)
		all = append(all, sample{resourceapi.Device{Name: fmt.Sprint("odd-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			standardNUMA: where, "number": {IntValue: &number},
		}}, nowhere})
	}
	withdraw, err := s.offer(odd, all)
	if err != nil {
		return err
	}
	for i := range oddities {
		if err := s.make(Pod{Name: fmt.Sprint("odd-", i), CPUs: 1, Ask: "required", Claims: []string{fmt.Sprint("odd-", i)}}); err != nil {
			return err
		}
	}
	var errs []error
	for i, where := range oddities {
		negative := where.IntValue != nil && *where.IntValue < 0 || len(where.IntValues) > 0
		name := fmt.Sprint("odd-", i)
		_, err := s.await(name, "running, or refused by the name of its device", sceneLimit, func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodRunning || !negative && strings.Contains(wire.Unscheduled(pod).Message, name)
		})
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.gone(), withdraw())...)
}

// vanish: before a request about the pod, all GPU drivers stop and their slices are deleted. When
// they are back, the pod runs.
func (s *stage) vanish(name string, before func(*http.Request) bool) error {
	var gone error
	done := make(chan struct{})
	s.hook.Store(&hook{before, func() bool {
		defer close(done)
		for of, d := range s.drivers {
			if of.name == gpus {
				d.Stop()
			}
		}
		gone = s.Client.ResourceV1().ResourceSlices().DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + gpus})
		return true
	}})
	if err := s.make(Pod{Name: name, CPUs: 2, Ask: "required", Claims: []string{"gpu"}}); err != nil {
		return err
	}
	select {
	case <-done:
	case <-time.After(sceneLimit):
		return errors.New("the scheduler writes nothing about the pod")
	}
	if err := errors.Join(gone, s.pass(s.ctx, calm)); err != nil {
		return err
	}
	for i := range s.pods {
		if s.pods[i].Status.Phase != corev1.PodPending {
			return fmt.Errorf("the driver is gone, and %s is %s: %s", s.pods[i].Name, s.pods[i].Status.Phase, s.pods[i].Status.Message)
		}
	}
	for of, d := range s.drivers {
		if of.name == gpus {
			if err := d.Start(s.ctx); err != nil {
				return err
			}
		}
	}
	pod, err := s.runs(name, sceneLimit)
	if err != nil {
		return err
	}
	return s.demand(pod, gpusOf(pod.Spec.NodeName))
}

func gpusOf(node string) []sample { return devicesOf(node)[gpus] }

func devicesOf(node string) map[string][]sample {
	for i := range kinds {
		if nodeName(i) == node {
			return kinds[i].devices
		}
	}
	return nil
}

// claimDeleted: the claim is deleted before its allocation is written. The controller creates
// another one, with which the pod runs.
func (s *stage) claimDeleted() error {
	deleted := make(chan error, 1)
	s.hook.Store(&hook{allocationOf("robbed"), func() bool {
		list, err := s.Client.ResourceV1().ResourceClaims(namespace).List(s.ctx, metav1.ListOptions{})
		if err == nil {
			for i := range list.Items {
				if strings.HasPrefix(list.Items[i].Name, "robbed-") {
					err = errors.Join(err, s.Client.ResourceV1().ResourceClaims(namespace).Delete(s.ctx, list.Items[i].Name, metav1.DeleteOptions{}))
				}
			}
		}
		deleted <- err
		return true
	}})
	if err := s.make(Pod{Name: "robbed", CPUs: 2, Ask: "required", Claims: []string{"gpu"}}); err != nil {
		return err
	}
	select {
	case err := <-deleted:
		if err != nil {
			return err
		}
	case <-time.After(sceneLimit):
		return errors.New("the scheduler does not allocate the claim")
	}
	pod, err := s.runs("robbed", sceneLimit)
	if err != nil {
		return err
	}
	return s.demand(pod, gpusOf(pod.Spec.NodeName))
}

// slowDevice: a device must become ready before its pod is bound. Meanwhile other pods are bound to
// the node.
func (s *stage) slowDevice() error {
	d := sample{device("slow", 0, standardNUMA, 0), 0}
	d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	withdraw, err := s.offer(slow, []sample{d})
	if err != nil {
		return err
	}
	if err := s.make(Pod{Name: "slow", CPUs: 2, Ask: "required", Claims: []string{"slow"}}); err != nil {
		return err
	}
	claim, err := s.allocated("slow")
	if err != nil {
		return err
	}
	if err := s.make(Pod{Name: "quick", CPUs: 1, Node: nodeName(0)}); err != nil {
		return err
	}
	if _, err := s.runs("quick", sceneLimit/4); err != nil {
		return fmt.Errorf("while another pod's device is not ready: %w", err)
	}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: slow, Pool: nodeName(0), Device: d.Name, Conditions: []metav1.Condition{
		{Type: "ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()},
	}}}
	if _, err := s.Client.ResourceV1().ResourceClaims(namespace).UpdateStatus(s.ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	pod, err := s.runs("slow", sceneLimit)
	if err == nil {
		err = s.demand(pod, []sample{d})
	}
	return errors.Join(err, s.gone(), withdraw())
}

// allDevices: Berth cannot steer a claim for all devices, and the devices are not near the CPUs
// that the pod would get. When CPUs near them are free, the pod runs.
func (s *stage) allDevices() error {
	all := []sample{{device("many", 0, standardNUMA, 1), 1}, {device("many", 1, standardNUMA, 1), 1}}
	withdraw, err := s.offer(many, all)
	if err != nil {
		return err
	}
	if err := s.make(Pod{Name: "whole", CPUs: 2, Ask: "required", Claims: []string{"all"}}); err != nil {
		return err
	}
	_, refused := s.await("whole", "refused by the name of a device", sceneLimit, func(pod *corev1.Pod) bool {
		return s.which == stock || strings.Contains(wire.Unscheduled(pod).Message, "many-")
	})
	if err := s.make(Pod{Name: "filler", CPUs: 7, Node: nodeName(0)}); err != nil { // one CPU is reserved
		return err
	}
	_, fills := s.runs("filler", sceneLimit)
	pod, err := s.runs("whole", sceneLimit/3)
	if err == nil {
		err = s.demand(pod, all)
	}
	return errors.Join(refused, fills, err, s.gone(), withdraw())
}

// gang: a node has CPUs for all members, and devices near the CPUs that its kubelet chooses for one
// or two.
func (s *stage) gang() error {
	const members = 5
	for i := range members {
		if err := s.make(Pod{Name: fmt.Sprint("g", i), CPUs: 1, Ask: "required", Claims: []string{"gpu"}, Gang: "g", Members: members}); err != nil {
			return err
		}
	}
	var errs []error
	for i := range members {
		pod, err := s.runs(fmt.Sprint("g", i), sceneLimit)
		if err == nil {
			err = s.demand(pod, gpusOf(pod.Spec.NodeName))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// follow: Berth decides on the node. A pod without claims gets the preferred NUMA node. A pod with
// claims gets the NUMA node of the devices, although the preferred NUMA node still has room.
func (s *stage) follow() error {
	if s.which == stock {
		return nil
	}
	node := obeyingNodes()[0]
	if err := s.make(Pod{Name: "plain", CPUs: 1, Node: node}); err != nil {
		return err
	}
	plain, err := s.runs("plain", sceneLimit)
	if err != nil {
		return err
	}
	if err := s.make(Pod{Name: "both", CPUs: 2, Ask: "required", Claims: []string{"gpu-and-nic"}, Node: node, Policy: "single-numa-node", Pinned: true}); err != nil {
		return err
	}
	pod, err := s.runs("both", sceneLimit)
	if err != nil {
		return err
	}
	entries, err := s.held(node, s.pods)
	if err != nil {
		return err
	}
	first, _ := of(entries, plain, mainContainer)
	then, _ := of(entries, pod, mainContainer)
	m := s.machines[node]
	at := topology.NewNUMASet(topology.NUMAID(gpusOf(node)[0].at))
	if near := m.NodesOf(then.cpus); near != at || then.memory != at || m.NodesOf(first.cpus) == at {
		return fmt.Errorf("CPUs are on NUMA node %v and memory on %v, want both on %v; a pod without claims is on %v, want another NUMA node", near, then.memory, at, m.NodesOf(first.cpus))
	}
	return s.demand(pod, slices.Concat(gpusOf(node), devicesOf(node)[cards]))
}

// allocated waits until the claim of a pod is allocated.
func (s *stage) allocated(pod string) (claim *resourceapi.ResourceClaim, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, sceneLimit)
	defer cancel()
	err = s.Await(ctx, func(ctx context.Context) bool {
		list, err := s.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range list.Items {
			if c := &list.Items[i]; strings.HasPrefix(c.Name, pod+"-") && c.Status.Allocation != nil {
				claim = c
			}
		}
		return claim != nil
	})
	return claim, err
}
