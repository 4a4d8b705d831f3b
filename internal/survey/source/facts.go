package source

import (
	"context"
	"encoding/json"
	"errors"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/wire"
)

// Facts implements Source. It reads heartbeats before reports, so that no heartbeat confirms a
// report newer than the one that was read. It reads pods after reports, so that a pod created in
// between counts as in flight, and not as gone.
func (a *API) Facts(ctx context.Context, only string) (*Facts, error) {
	f, _, err := a.readFacts(ctx, only)
	return f, err
}

// readFacts returns the Facts for the method Facts, and also the unparsed reports.
func (a *API) readFacts(ctx context.Context, only string) (*Facts, []json.RawMessage, error) {
	var f Facts
	var readErr, nodesErr, beatsErr, podsErr, coarseErr error
	var side errgroup.Group
	side.Go(func() error {
		f.Nodes, nodesErr = a.nodeObjects(ctx, only)
		return nil
	})
	side.Go(func() error {
		coarseErr = f.readCoarse(ctx, a, only)
		return nil
	})
	f.Beats, beatsErr = a.beats(ctx)
	raw, reportsErr := a.topologies(ctx, only)
	if reportsErr == nil {
		side.Go(func() error {
			f.Reports, readErr = readTopologies(raw)
			return nil
		})
		f.Pods, podsErr = a.boundPods(ctx, only)
	}
	_ = side.Wait() // always nil: the errors are in the variables above
	if reportsErr != nil {
		return nil, nil, reportsErr
	}
	if readErr != nil {
		return nil, nil, a.failed("nodetopologies.berth.dev", readErr)
	}
	if coarseErr != nil {
		return nil, nil, coarseErr
	}
	if err := f.readReservations(ctx, a); err != nil {
		return nil, nil, err
	}
	return &f, raw, f.judge(a, nodesErr, beatsErr, podsErr)
}

// judge determines from the errors of the lists which objects may be read. It adds notes about
// missing permissions, and returns all other errors.
func (f *Facts) judge(a *API, nodesErr, beatsErr, podsErr error) error {
	f.NodesKnown, f.BeatsKnown, f.PodsKnown = nodesErr == nil, beatsErr == nil, podsErr == nil
	for _, l := range []struct {
		what, then string
		err        error
	}{
		{"nodes", "it is not checked whether a node exists, is cordoned or tainted, matches the pod's selectors, or is full", nodesErr},
		{"leases in " + a.Heartbeats, "it is not checked whether agents are alive", beatsErr},
		{"pods of all namespaces", "pods that are bound and not yet reported are not counted", podsErr},
	} {
		note, err := a.tolerate(l.what, l.then, l.err)
		if err != nil {
			return err
		}
		f.Notes = append(f.Notes, note...)
	}
	return nil
}

func (a *API) topologies(ctx context.Context, only string) ([]json.RawMessage, error) {
	raw, err := readAll[json.RawMessage](ctx, a, named("metadata.name", only), v1alpha1.GroupVersion.String(), v1alpha1.NodeTopologies.Resource)
	return raw, a.reportsFailed(err)
}

// readCoarse reads the reports that contain only amounts. If a kind is not served or may not be
// read, its list is empty, because these kinds are optional.
func (f *Facts) readCoarse(ctx context.Context, a *API, only string) error {
	for i := range apiclient.CoarseKinds {
		kind := &apiclient.CoarseKinds[i]
		all, err := pages(func(o metav1.ListOptions) ([]runtime.Object, string, error) {
			list, err := a.coarse[i].Get().Resource(kind.Resource.Resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Get()
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
			return a.failed(kind.Resource.GroupResource().String(), err)
		}
		f.served[i] = true
		for _, o := range all {
			if one, ok := o.(metav1.Object); ok {
				f.Coarse = append(f.Coarse, one)
			}
		}
	}
	return nil
}

func (a *API) reportsFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return errNotInstalled
	}
	return a.failed("nodetopologies.berth.dev", err)
}

// readTopologies parses reports, on all CPUs of this machine.
func readTopologies(raw []json.RawMessage) ([]v1alpha1.NodeTopology, error) {
	out, errs := make([]v1alpha1.NodeTopology, len(raw)), make([]error, len(raw))
	parallel.Do(len(raw), func(i int) { errs[i] = out[i].UnmarshalJSON(raw[i]) })
	return out, errors.Join(errs...)
}

// beats returns the last heartbeat of each node's agent, by node.
func (a *API) beats(ctx context.Context) (map[string]Beat, error) {
	items := func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items }
	leases, err := listed(ctx, a.leases.Leases(a.Heartbeats).List, items, metav1.ListOptions{})
	out := map[string]Beat{}
	for i := range leases {
		l := &leases[i]
		if b := beatOf(l); b.Node != "" {
			out[b.Node] = b
		}
	}
	return out, err
}

// beatOf returns the heartbeat in a Lease. It returns the zero value if the Lease is no heartbeat
// or has no times.
func beatOf(l *coordinationv1.Lease) Beat {
	b, err := nodestate.HeartbeatOf(l)
	if err != nil {
		return Beat{}
	}
	return Beat{b, wire.LastWritten(&l.ObjectMeta, b.Renewed)}
}

// boundPods reads the bound pods of all namespaces. If node is set, it reads only the pods of that
// node.
func (a *API) boundPods(ctx context.Context, node string) ([]corev1.Pod, error) {
	o := named("spec.nodeName", node)
	if node == "" {
		o.FieldSelector = "spec.nodeName!="
	}
	return a.listPods(ctx, metav1.NamespaceAll, o)
}

// Readable determines which objects may be read. The result contains no objects.
func (a *API) Readable(ctx context.Context) (*Facts, error) {
	one := metav1.ListOptions{Limit: 1}
	var f Facts
	if err := a.reports.Get().Resource("nodetopologies").Param("limit", "1").Do(ctx).Error(); err != nil {
		return nil, a.reportsFailed(err)
	}
	if err := f.readCoarse(ctx, a, ""); err != nil {
		return nil, err
	}
	if err := f.readReservations(ctx, a); err != nil {
		return nil, err
	}
	f.Coarse, f.Reservations = nil, nil
	_, nodesErr := a.core.Nodes().List(ctx, one)
	_, beatsErr := a.leases.Leases(a.Heartbeats).List(ctx, one)
	_, podsErr := a.core.Pods(metav1.NamespaceAll).List(ctx, one)
	return &f, f.judge(a, nodesErr, beatsErr, podsErr)
}

// readReservations reads Koordinator's Reservations. If they are not served or may not be read, the
// list is empty.
func (f *Facts) readReservations(ctx context.Context, a *API) error {
	raw, err := readAll[json.RawMessage](ctx, a, metav1.ListOptions{}, koordinator.GroupVersion.String(), koordinator.Reservations.Resource)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		note, rest := a.tolerate("reservations.scheduling.koordinator.sh", "the resources that they hold are not counted", err)
		f.Notes = append(f.Notes, note...)
		return rest
	}
	f.reservationsServed = true
	for i := range raw {
		var o koordinator.Reservation
		if err := json.Unmarshal(raw[i], &o); err == nil {
			f.Reservations = append(f.Reservations, &o)
		}
	}
	return nil
}
