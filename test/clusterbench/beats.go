package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// beats counts heartbeats.
type beats struct {
	mu   sync.Mutex
	took []time.Duration
}

func (b *beats) add(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took = append(b.took, took)
}

// taken returns the latencies so far, and forgets them.
func (b *beats) taken() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.took
	b.took = nil
	return out
}

// beat renews the node's Lease as its agent does.
func (n *simNode) beat(ctx context.Context, p *plane) (time.Duration, error) {
	vouched := map[string]string{v1alpha1.SequenceAnnotation: strconv.FormatInt(n.holds.Load(), 10)}
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(n.name), Namespace: v1alpha1.HeartbeatNamespace, Annotations: vouched},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())},
	}
	data, err := json.Marshal(lease)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	path := "/apis/coordination.k8s.io/v1/namespaces/" + lease.Namespace + "/leases/" + lease.Name
	err = p.raw.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "berth-agent").Param("force", "true").
		Param("fieldValidation", "Ignore").Body(data).Do(ctx).Error()
	if err != nil {
		return 0, fmt.Errorf("heartbeat of %s: %w", n.name, err)
	}
	return time.Since(begun), nil
}
