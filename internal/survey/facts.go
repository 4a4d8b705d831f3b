package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
)

// facts are what the API server answered.
type facts struct {
	reports []v1alpha1.NodeTopology
	raw     []json.RawMessage // reports as they came, where they are kept
	nodes   []corev1.Node
	// coarse are the reports that tell amounts alone, as apiclient.CoarseKinds has their kinds;
	// served says which of these kinds there are.
	coarse []metav1.Object
	served [2]bool
	// reservations are Koordinator's, where they are served and may be read.
	reservations       []*koordinator.Reservation
	reservationsServed bool
	// beats are the last heartbeats of agents, by node.
	beats map[string]beat
	// pods are the ones that are bound, in all namespaces; nil where they may not be read.
	pods []corev1.Pod
	// These may be read.
	nodesKnown, beatsKnown, podsKnown bool
	// notes say what may not be read.
	notes []string
}

// beat is a heartbeat, and when the API server took it in.
type beat struct {
	nodestate.Heartbeat
	written time.Time
}

// facts reads everything about one node, or about all where only is "". Heartbeats are read before
// reports: no heartbeat then vouches for a report that came too late to be read. Pods are read
// last: what comes in between counts as on its way, never as gone.
func (c *Cluster) facts(ctx context.Context, only string) (*facts, error) {
	if c.still != nil {
		return c.still.facts(only), nil
	}
	var f facts
	var readErr, nodesErr, beatsErr, podsErr, coarseErr error
	var side errgroup.Group
	side.Go(func() error {
		f.nodes, nodesErr = c.nodeObjects(ctx, only)
		return nil
	})
	side.Go(func() error {
		coarseErr = f.readCoarse(ctx, c, only)
		return nil
	})
	f.beats, beatsErr = c.beats(ctx)
	raw, reportsErr := c.topologies(ctx, only)
	if c.keepRaw {
		f.raw = raw
	}
	if reportsErr == nil {
		side.Go(func() error {
			f.reports, readErr = readTopologies(raw)
			return nil
		})
		f.pods, podsErr = c.podsIn(ctx, metav1.NamespaceAll, only)
	}
	_ = side.Wait() // its errors are judged below
	if reportsErr != nil {
		return nil, reportsErr
	}
	if readErr != nil {
		return nil, c.failed("nodetopologies.berth.dev", readErr)
	}
	if coarseErr != nil {
		return nil, coarseErr
	}
	if err := f.readReservations(ctx, c); err != nil {
		return nil, err
	}
	return &f, f.judge(c, nodesErr, beatsErr, podsErr)
}

// judge says what may be read, given the errors of the lists, and makes notes of the rest; other
// errors stay.
func (f *facts) judge(c *Cluster, nodesErr, beatsErr, podsErr error) error {
	f.nodesKnown, f.beatsKnown, f.podsKnown = nodesErr == nil, beatsErr == nil, podsErr == nil
	for _, l := range []struct {
		what, then string
		err        error
	}{
		{"nodes", "whether a node exists, is cordoned or tainted, has what the pod selects, or is full is not checked", nodesErr},
		{"leases in " + c.Heartbeats, "whether agents are alive is not checked", beatsErr},
		{"pods of all namespaces", "pods that are bound and not yet reported are not counted", podsErr},
	} {
		if err := f.tolerate(l.what, l.then, c, l.err); err != nil {
			return err
		}
	}
	return nil
}

// tolerate makes a note of a list that the user may not read, and of what is missing therefore;
// other errors stay.
func (f *facts) tolerate(what, then string, c *Cluster, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		f.notes = append(f.notes, fmt.Sprintf("%s may not be read, so %s: %v", what, then, err))
		return nil
	}
	return c.failed(what, err)
}

// topologies lists reports, as they come.
func (c *Cluster) topologies(ctx context.Context, only string) ([]json.RawMessage, error) {
	raw, err := pages(func(o metav1.ListOptions) ([]json.RawMessage, string, error) {
		return c.rawPage(ctx, []string{"/apis", v1alpha1.GroupVersion.String(), v1alpha1.NodeTopologies.Resource}, o)
	}, named("metadata.name", only))
	return raw, c.reportsFailed(err)
}

// readCoarse reads the reports that tell amounts alone. Where their kinds are not served, or may
// not be read, there are none: nobody has to have them.
func (f *facts) readCoarse(ctx context.Context, c *Cluster, only string) error {
	for i := range apiclient.CoarseKinds {
		kind := &apiclient.CoarseKinds[i]
		all, err := pages(func(o metav1.ListOptions) ([]runtime.Object, string, error) {
			list, err := c.coarse[i].Get().Resource(kind.Resource.Resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Get()
			if err != nil {
				return nil, "", err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return nil, "", err
			}
			about, err := meta.ListAccessor(list)
			if err != nil {
				return nil, "", err
			}
			return items, about.GetContinue(), nil
		}, named("metadata.name", only))
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			continue
		case err != nil:
			return c.failed(kind.Resource.GroupResource().String(), err)
		}
		f.served[i] = true
		for _, o := range all {
			if one, ok := o.(metav1.Object); ok {
				f.coarse = append(f.coarse, one)
			}
		}
	}
	return nil
}

// reportsFailed says why reports could not be read; nil where they could.
func (c *Cluster) reportsFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return ErrNotInstalled
	}
	return c.failed("nodetopologies.berth.dev", err)
}

// readTopologies takes reports apart on every CPU, while pods are listed.
func readTopologies(raw []json.RawMessage) ([]v1alpha1.NodeTopology, error) {
	out, errs := make([]v1alpha1.NodeTopology, len(raw)), make([]error, len(raw))
	inParallel(len(raw), func(i int) { errs[i] = out[i].UnmarshalJSON(raw[i]) })
	return out, errors.Join(errs...)
}

// deviceClasses returns the extended resources that device classes stand for, each under the name
// that it gives itself and the one that it always has. Where the API server knows no device classes
// there are none.
func (c *Cluster) deviceClasses(ctx context.Context) (map[corev1.ResourceName]bool, error) {
	if c.still != nil {
		return nil, nil
	}
	classes, err := pages(func(o metav1.ListOptions) ([]resourcev1.DeviceClass, string, error) {
		answer := c.reports.Get().AbsPath("/apis", resourcev1.SchemeGroupVersion.String(), "deviceclasses").VersionedParams(&o, metav1.ParameterCodec).Do(ctx)
		if err := answer.Error(); err != nil {
			return nil, "", err
		}
		data, err := answer.Raw()
		if err != nil {
			return nil, "", err
		}
		var l resourcev1.DeviceClassList
		err = json.Unmarshal(data, &l)
		return l.Items, l.Continue, err
	}, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	out := map[corev1.ResourceName]bool{}
	for i := range classes {
		out[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+classes[i].Name)] = true
		if name := classes[i].Spec.ExtendedResourceName; name != nil {
			out[corev1.ResourceName(*name)] = true
		}
	}
	return out, err
}

func (c *Cluster) nodeObjects(ctx context.Context, only string) ([]corev1.Node, error) {
	return pages(func(o metav1.ListOptions) ([]corev1.Node, string, error) {
		l, err := c.core.Nodes().List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, named("metadata.name", only))
}

// podsIn reads the pods of a namespace; with all namespaces, the ones that are bound, to one node
// where it is named.
func (c *Cluster) podsIn(ctx context.Context, namespace, node string) ([]corev1.Pod, error) {
	opts := named("spec.nodeName", node)
	if namespace == metav1.NamespaceAll && node == "" {
		opts.FieldSelector = "spec.nodeName!="
	}
	return pages(func(o metav1.ListOptions) ([]corev1.Pod, string, error) {
		l, err := c.core.Pods(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, opts)
}

// beats returns the last heartbeat of each node's agent, by the API server's clock where it tells.
func (c *Cluster) beats(ctx context.Context) (map[string]beat, error) {
	leases, err := pages(func(o metav1.ListOptions) ([]coordinationv1.Lease, string, error) {
		l, err := c.leases.Leases(c.Heartbeats).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return l.Items, l.Continue, nil
	}, metav1.ListOptions{})
	out := map[string]beat{}
	for i := range leases {
		l := &leases[i]
		if b := beatOf(l); b.Node != "" {
			out[b.Node] = b
		}
	}
	return out, err
}

// beatOf reads a Lease; zero of one that is no heartbeat, or that says nothing.
func beatOf(l *coordinationv1.Lease) beat {
	b, err := nodestate.HeartbeatOf(l)
	if err != nil {
		return beat{}
	}
	return beat{b, written(&l.ObjectMeta, b.Renewed)}
}

// named selects by a field, unless the value is empty.
func named(field, value string) metav1.ListOptions {
	if value == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()}
}
