package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// observer repeatedly reads pods, claims, checkpoints and drivers, and records its findings about
// each pod of a plan.
type observer struct {
	*cluster
	plan map[string]*Pod
	// pods are the pods in the API.
	pods    []corev1.Pod
	changed time.Time // when a pod last started or ended

	ran       map[string]bool
	judged    map[types.UID]bool
	restarted map[string]time.Time // when a node was last killed and started again
	// Findings by pod: the failure, or the reason why the pod counts.
	refused, misaligned, neutral, steered, named map[string]string
	strayed                                      map[string]string // misaligned pods with the mode near
	twice, wrong                                 map[string]bool

	busy    map[place]time.Time // when a device was last seen allocated
	choices map[types.UID]*choice
}

// choice is an allocation and the time at which it was first seen.
type choice struct {
	pod   string
	claim *resourceapi.ResourceClaim
	at    time.Time
	done  bool
}

func newObserver(c *cluster, plan Plan) *observer {
	o := &observer{cluster: c, plan: map[string]*Pod{}, ran: map[string]bool{}, judged: map[types.UID]bool{}, restarted: map[string]time.Time{},
		refused: map[string]string{}, misaligned: map[string]string{}, strayed: map[string]string{}, neutral: map[string]string{}, steered: map[string]string{}, named: map[string]string{},
		twice: map[string]bool{}, wrong: map[string]bool{}, busy: map[place]time.Time{}, choices: map[types.UID]*choice{}, changed: time.Now()}
	for i := range plan {
		o.plan[plan[i].Pod.Name] = &plan[i].Pod
	}
	return o
}

// look reads the current state.
func (o *observer) look(ctx context.Context) error {
	pods, err := o.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	list, err := o.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items) != len(o.pods) {
		o.changed = time.Now()
	}
	o.pods = pods.Items
	claims := map[string]*resourceapi.ResourceClaim{}
	for i := range list.Items {
		claims[list.Items[i].Name] = &list.Items[i]
	}
	cpus := map[string][]belongings{}
	for node := range o.machines {
		if cpus[node], err = o.held(node, o.pods); err != nil {
			return err
		}
		if twice := overlap(cpus[node]); twice != "" {
			o.twice[node+": "+twice] = true
		}
	}
	o.lookAtClaims(list.Items)
	for i := range o.pods {
		if err := o.lookAt(ctx, &o.pods[i], claims, cpus); err != nil {
			return err
		}
	}
	o.chosen()
	return nil
}

// lookAtClaims records which devices are allocated to which claims.
func (o *observer) lookAtClaims(all []resourceapi.ResourceClaim) {
	now, holder := time.Now(), map[place]string{}
	for i := range all {
		claim := &all[i]
		for _, r := range results(claim) {
			if !its(&r) {
				continue
			}
			at := placeOf(&r)
			if other := holder[at]; other != "" {
				o.twice[fmt.Sprintf("%v: claims %s and %s", at, other, claim.Name)] = true
			}
			holder[at], o.busy[at] = claim.Name, now
		}
		if c := o.choices[claim.UID]; c == nil && claim.Status.Allocation != nil && len(claim.OwnerReferences) > 0 {
			o.choices[claim.UID] = &choice{pod: claim.OwnerReferences[0].Name, claim: claim, at: now}
		}
	}
	for of, d := range o.drivers {
		twice, _ := d.Wrong()
		for _, t := range twice {
			o.twice[of.name+": "+t] = true
		}
	}
}

// lookAt records the state of a pod.
func (o *observer) lookAt(ctx context.Context, pod *corev1.Pod, claims map[string]*resourceapi.ResourceClaim, cpus map[string][]belongings) error {
	p := o.plan[pod.Name]
	if p == nil {
		return nil
	}
	if why := wire.Unscheduled(pod).Message; pod.Spec.NodeName == "" && names(why, pod) {
		o.named[pod.Name] = why
	}
	switch {
	case wire.Refused(pod) && o.refused[pod.Name] == "":
		o.refused[pod.Name] = pod.Spec.NodeName + ": " + pod.Status.Message
		o.changed = time.Now()
	case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
		if !o.ran[pod.Name] {
			o.ran[pod.Name] = true
			o.changed = time.Now()
		}
		if !o.judged[pod.UID] && len(pod.Spec.ResourceClaims) > 0 {
			return o.judge(ctx, p, pod, claims, cpus[pod.Spec.NodeName])
		}
	}
	return nil
}

// deviceName matches the names of these devices.
var deviceName = regexp.MustCompile(`\b(gpu|nic|other)-[0-9]\b`)

// names reports whether a message names a claim of the pod, a device, or the request.
func names(message string, pod *corev1.Pod) bool {
	return strings.Contains(message, claimsAnnotation) || deviceName.MatchString(message) || slices.ContainsFunc(claimsOf(pod), func(claim string) bool { return strings.Contains(message, claim) })
}

// judge compares the devices of a running pod with its CPUs.
func (o *observer) judge(ctx context.Context, p *Pod, pod *corev1.Pod, claims map[string]*resourceapi.ResourceClaim, cpus []belongings) error {
	var devices []sample
	for _, name := range claimsOf(pod) {
		claim := claims[name]
		if claim == nil || claim.Status.Allocation == nil {
			return o.mustLeave(ctx, pod, "claim "+name+" is not allocated")
		}
		for _, r := range results(claim) {
			d, err := find(pod.Spec.NodeName, r.Driver, r.Device)
			if err != nil {
				return err
			}
			if !its(&r) {
				continue
			}
			if at := placeOf(&r); !slices.Contains(o.drivers[at.driverOf].Prepared()[claim.UID], r.Device) {
				return o.mustLeave(ctx, pod, "device "+r.Device+" is not prepared for claim "+name)
			}
			devices = append(devices, d)
		}
	}
	mine, there := of(cpus, pod, mainContainer)
	if node := pod.Spec.NodeName; !there && obeying(node) && time.Since(o.restarted[node]) < back {
		return nil
	}
	if mine.cpus.IsEmpty() && !p.Shared {
		return o.mustLeave(ctx, pod, "its container has no CPUs of its own")
	}
	o.judged[pod.UID] = true
	if p.Ask == "" {
		return nil
	}
	switch how, which := align(o.machines[pod.Spec.NodeName], mine, devices); how {
	case neutral:
		o.neutral[pod.Name] = pod.Spec.NodeName
	case misaligned:
		where := o.misaligned
		if p.Ask == "near" {
			where = o.strayed
		}
		where[pod.Name] = fmt.Sprintf("%s on %s: %s", pod.Name, pod.Spec.NodeName, which)
	}
	return nil
}

// back is how long a node where Berth decides may take to start its containers again after it was
// killed. Its runtime dies with its kubelet, and the API server still shows the pods as running.
const back = time.Minute

// mustLeave records a failure about a running pod, unless the pod is being deleted.
func (o *observer) mustLeave(ctx context.Context, pod *corev1.Pod, what string) error {
	now, err := o.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		return err
	}
	for i := range now.Items {
		if now.Items[i].UID == pod.UID && now.Items[i].DeletionTimestamp == nil {
			o.wrong[fmt.Sprintf("pod %s runs on %s, and %s", pod.Name, pod.Spec.NodeName, what)] = true
		}
	}
	o.judged[pod.UID] = true
	return nil
}

// settled is how long before and after a choice a device must have been unallocated to count as
// free for it.
const settled = 2 * time.Second

// chosen records pods that got a device on another NUMA node than the first free device. An
// allocator that sees all devices takes the first free one.
func (o *observer) chosen() {
	for _, c := range o.choices {
		if c.done || time.Since(c.at) < settled {
			continue
		}
		c.done = true
		if len(c.claim.Spec.Devices.Constraints) > 0 || o.plan[c.pod] == nil {
			continue
		}
		var mine []place
		for _, r := range results(c.claim) {
			mine = append(mine, placeOf(&r))
		}
		for _, r := range results(c.claim) {
			if why := o.passedOver(&r, c, mine); why != "" && its(&r) {
				o.steered[c.pod] = why
			}
		}
	}
}

// passedOver describes the first free device before the chosen one on another NUMA node; "" for
// none.
func (o *observer) passedOver(r *resourceapi.DeviceRequestAllocationResult, c *choice, mine []place) string {
	got, err := find(r.Pool, r.Driver, r.Device)
	if err != nil {
		return ""
	}
	for i := range kinds {
		if nodeName(i) != r.Pool {
			continue
		}
		for _, d := range kinds[i].devices[r.Driver] {
			at := place{driverOf{r.Pool, r.Driver}, d.Name}
			switch {
			case d.Name == r.Device:
				return ""
			case slices.Contains(mine, at):
			case o.busy[at].Before(c.at.Add(-settled)) && d.at != got.at:
				return fmt.Sprintf("%s of %s in place of %s", r.Device, r.Pool, d.Name)
			}
		}
	}
	return ""
}
