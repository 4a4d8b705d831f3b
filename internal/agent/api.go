package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// API is the agent's interface to the API server; *Cluster implements it.
type API interface {
	// NodeTopology returns the node's NodeTopology, or nil if the API has none.
	NodeTopology(ctx context.Context) (*v1alpha1.NodeTopology, error)
	// Publish applies the node's NodeTopology. It returns ErrStale if the API has a report with a
	// higher sequence number.
	Publish(ctx context.Context, nt *v1alpha1.NodeTopology) error
	// PublishAmounts applies an object of another kind that describes the node for other programs.
	PublishAmounts(ctx context.Context, resource schema.GroupVersionResource, o metav1.Object) error
	// Heartbeat renews the node's Lease, with the sequence number of the report that is still
	// valid.
	Heartbeat(ctx context.Context, sequence int64, now time.Time) error
}

// ErrStale means that the API server refused a report because it has a report with a higher
// sequence number. Either another agent runs for the node, or this agent does not know its own last
// report.
var ErrStale = fmt.Errorf("a later report has been published")

var _ API = (*Cluster)(nil)

const fieldManager = "berth-agent"

// Cluster implements API with an API server's clients, for the agent of one node.
type Cluster struct {
	node    string
	dynamic dynamic.Interface
	// metadata is a client whose writes return only the object's metadata.
	metadata metadata.Interface
	leases   coordination.LeaseInterface
	every    time.Duration
	owner    func() *corev1.Node
	// fits records, by resource, whether the API server accepted the last write. Only apply uses
	// it.
	fits map[schema.GroupVersionResource]bool
}

// heartbeatsToLive is the duration of a Lease in heartbeat intervals.
const heartbeatsToLive = 4

// NodeTopology implements API.
func (c *Cluster) NodeTopology(ctx context.Context) (*v1alpha1.NodeTopology, error) {
	u, err := c.dynamic.Resource(v1alpha1.NodeTopologies).Get(ctx, c.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get NodeTopology %s: %w", c.node, err)
	}
	nt := &v1alpha1.NodeTopology{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, nt); err != nil {
		return nil, fmt.Errorf("get NodeTopology %s: %w", c.node, err)
	}
	return nt, nil
}

// Publish implements API.
func (c *Cluster) Publish(ctx context.Context, nt *v1alpha1.NodeTopology) error {
	nt.OwnerReferences = c.ownerReferences()
	err := c.apply(ctx, v1alpha1.NodeTopologies, nt, metav1.FieldValidationStrict)
	if apierrors.IsInvalid(err) {
		if now, getErr := c.NodeTopology(ctx); getErr == nil && now != nil && now.Status.Sequence > nt.Status.Sequence {
			return ErrStale
		}
	}
	return err
}

// PublishAmounts implements API.
func (c *Cluster) PublishAmounts(ctx context.Context, resource schema.GroupVersionResource, o metav1.Object) error {
	o.SetOwnerReferences(c.ownerReferences())
	return c.apply(ctx, resource, o, metav1.FieldValidationWarn)
}

// ownerReferences returns references with which the garbage collector deletes an object together
// with its Node. It returns nil if the Node is not known.
func (c *Cluster) ownerReferences() []metav1.OwnerReference {
	node := c.owner()
	if node == nil {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

// apply makes a forced server-side apply, because no other program may write the node's objects.
// The parameter first is the field validation of the first write, and of the first write after a
// failure. With it, a CustomResourceDefinition of an older release does not drop fields silently.
// Later writes use no validation, because validation makes the API server parse the object twice.
func (c *Cluster) apply(ctx context.Context, resource schema.GroupVersionResource, object any, first string) error {
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", resource.Resource, c.node, err)
	}
	validation := first
	if c.fits[resource] {
		validation = metav1.FieldValidationIgnore
	}
	_, err = c.metadata.Resource(resource).Patch(ctx, c.node, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true), FieldValidation: validation})
	if c.fits == nil {
		c.fits = map[schema.GroupVersionResource]bool{}
	}
	c.fits[resource] = err == nil
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", resource.Resource, c.node, err)
	}
	return nil
}

// Heartbeat implements API.
func (c *Cluster) Heartbeat(ctx context.Context, sequence int64, now time.Time) error {
	seconds := int32(max(1, c.every*heartbeatsToLive/time.Second))
	renewed := metav1.NewMicroTime(now)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.HeartbeatName(c.node), OwnerReferences: c.ownerReferences(),
			Annotations: map[string]string{v1alpha1.SequenceAnnotation: strconv.FormatInt(sequence, 10)},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &c.node, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
	lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
	data, err := json.Marshal(lease)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	_, err = c.leases.Patch(ctx, lease.Name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true), FieldValidation: metav1.FieldValidationIgnore})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}
