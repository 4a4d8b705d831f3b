package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/test/tenant"
)

// The tenant sends few requests.
const tenantHands, tenantPerSecond = 2, 5

// letLoose lets the tenant do harm until the returned function is called, which also removes the
// tenant's objects.
func (d *driver) letLoose(ctx context.Context, seed uint64) (end func(context.Context), err error) {
	config, err := d.credentials(tenantConfig)
	if err != nil {
		return nil, err
	}
	var nodes []string
	for i := range d.specs {
		nodes = append(nodes, d.specs[i].Name)
	}
	t, err := tenant.New(tenant.Options{Config: config, Nodes: nodes, Lanes: 4, Others: namespace, Hands: tenantHands, PerSecond: tenantPerSecond, Pods: d.tenantPods})
	if err != nil {
		return nil, err
	}
	harming, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); t.Harm(harming, seed) }()
	return func(ctx context.Context) {
		stop()
		<-done
		c := t.Counts()
		d.mu.Lock()
		d.tally.attempts, d.tally.accepted = c.Attempts, c.Accepted
		d.mu.Unlock()
		d.until(ctx, goneLimit, "", func() string { return d.evict(ctx) })
	}, nil
}

// evict deletes the tenant's namespace, and returns what remains in it.
func (d *driver) evict(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if err := d.client.CoreV1().Namespaces().Delete(ctx, tenant.Namespace, metav1.DeleteOptions{}); err != nil && !strings.Contains(err.Error(), "not found") {
		return err.Error()
	}
	if left := d.tenantPods(); len(left) > 0 {
		return fmt.Sprintf("%d pods of the tenant still exist, such as %s", len(left), left[0].Name)
	}
	return ""
}

// tenantPods returns the existing pods of the tenant.
func (o *observer) tenantPods() (all []*corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.pods {
		if w.pod.Namespace == tenant.Namespace && !w.gone {
			all = append(all, w.pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return all
}

// tenantLine is the tenant's line of the table.
func (t *tally) tenantLine() string {
	return fmt.Sprintf("%d of them accepted, at most %d a second", t.accepted, tenantPerSecond)
}
