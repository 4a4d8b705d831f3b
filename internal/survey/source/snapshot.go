package source

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// snapshotKind and snapshotVersion identify the file of a snapshot. The version must be raised if
// older readers would misread a new file.
const (
	snapshotKind    = "BerthSnapshot"
	snapshotVersion = 1
	// maxSnapshot is the maximum number of bytes that Open unpacks from a file.
	maxSnapshot = 4 << 30
)

// Snapshot is a cluster at one moment, with only the data that a survey reads.
type Snapshot struct {
	Kind       string    `json:"kind"`
	Version    int       `json:"version"`
	Taken      time.Time `json:"taken"`
	Where      string    `json:"where"`
	StaleAfter string    `json:"staleAfter"`
	// Terms are Options.Terms. Files of older releases do not have this field.
	wire.Terms
	Notes   []string       `json:"notes,omitempty"`
	Unknown []string       `json:"unknown,omitempty"` // "nodes", "leases" or "pods" if they could not be read
	Nodes   []*corev1.Node `json:"nodes"`
	// Reports are unparsed, so that a reader can also show reports that are malformed.
	Reports []json.RawMessage       `json:"nodeTopologies"`
	Leases  []*coordinationv1.Lease `json:"leases"`
	Pods    []*corev1.Pod           `json:"pods"`
	// These two lists are the reports that contain only amounts.
	Numatopologies []*nodeinfo.Numatopology    `json:"numatopologies,omitempty"`
	Zones          []*nrt.NodeResourceTopology `json:"nodeResourceTopologies,omitempty"`
	// Groups are the objects that declare gangs. Files of older releases do not have this field.
	Groups []json.RawMessage `json:"podGroups,omitempty"`
	// Reservations are Koordinator's Reservations. Files of older releases do not have this field.
	Reservations []*koordinator.Reservation `json:"reservations,omitempty"`
	// Malformed has the errors of objects in Numatopologies, Zones and Reservations that do not fit
	// their types, by list and name. Files of older releases do not have this field.
	Malformed map[string]string `json:"malformed,omitempty"`
	// PodDisruptionBudgets is nil if they could not be read, or if an older release took the
	// snapshot.
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`
	// Each of these lists is nil if it could not be read, or if an older release took the snapshot.
	Slices  []*resourcev1.ResourceSlice `json:"resourceSlices"`
	Claims  []*resourcev1.ResourceClaim `json:"resourceClaims"`
	Classes []*resourcev1.DeviceClass   `json:"deviceClasses"`

	reports []v1alpha1.NodeTopology // the parsed Reports
}

// Snapshot reads the data that a survey reads, such as nodes, reports, heartbeats and pods. It
// omits the pods' commands, environment variables, contents of volumes and unrelated annotations.
// If the pods of all namespaces may not be read, it reads only the waiting pods and the gangs of
// the given namespace.
func (a *API) Snapshot(ctx context.Context, namespace string) (*Snapshot, error) {
	f, raw, err := a.readFacts(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &Snapshot{Taken: a.Now().UTC(), Where: a.Where, StaleAfter: a.StaleAfter.String(), Terms: a.Terms, Reports: raw}
	out.keep(f)
	if out.Leases, err = a.heartbeatLeases(ctx, f); err != nil {
		return nil, err
	}
	if f.PodsKnown {
		namespace = metav1.NamespaceAll
	}
	return out, out.readRest(ctx, a, namespace)
}

// Write writes the snapshot as JSON, compressed with gzip.
func (s *Snapshot) Write(w io.Writer) error {
	s.Kind, s.Version = snapshotKind, snapshotVersion
	packed := gzip.NewWriter(w)
	return errors.Join(json.NewEncoder(packed).Encode(s), packed.Close())
}

// Add adds the objects of one node: its Node, its report and its pods. Each of these may be
// missing. With a report, it also adds a heartbeat, so that the node's agent counts as alive.
func (s *Snapshot) Add(node *corev1.Node, report metav1.Object, pods []*corev1.Pod) error {
	if node != nil {
		s.Nodes = append(s.Nodes, slimNode(node))
	}
	for _, pod := range pods {
		s.Pods = append(s.Pods, slimPod(pod))
	}
	if report == nil {
		return nil
	}
	raw, err := json.Marshal(report)
	now := metav1.NewMicroTime(s.Taken)
	s.Reports = append(s.Reports, raw)
	s.Leases = append(s.Leases, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(report.GetName())}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
	})
	return err
}

// keep adds the facts to the snapshot, except reports and heartbeats. It keeps only the fields that
// a survey reads.
func (s *Snapshot) keep(f *Facts) {
	s.Notes, s.Unknown = f.Notes, f.unknown()
	for i := range f.Nodes {
		s.Nodes = append(s.Nodes, slimNode(&f.Nodes[i]))
	}
	for _, o := range f.Coarse {
		switch o := o.(type) {
		case *nodeinfo.Numatopology:
			s.Numatopologies = append(s.Numatopologies, o)
		case *nrt.NodeResourceTopology:
			s.Zones = append(s.Zones, o)
		}
	}
	for _, o := range f.Reservations {
		s.Reservations = append(s.Reservations, slimReservation(o))
	}
	for name, text := range s.malformed() {
		if *text != "" {
			if s.Malformed == nil {
				s.Malformed = map[string]string{}
			}
			s.Malformed[name] = *text
		}
	}
	s.addPods(f.Pods)
}

// malformed returns, by list and name, pointers to the objects' fields Malformed. The JSON of the
// objects does not have these fields, so Snapshot.Malformed stores their values.
func (s *Snapshot) malformed() map[string]*string {
	out := map[string]*string{}
	for _, o := range s.Numatopologies {
		out["numatopologies/"+o.Name] = &o.Malformed
	}
	for _, o := range s.Zones {
		out["nodeResourceTopologies/"+o.Name] = &o.Malformed
	}
	for _, o := range s.Reservations {
		out["reservations/"+o.Name] = &o.Malformed
	}
	return out
}

func (f *Facts) unknown() (lists []string) {
	for _, u := range []struct {
		known bool
		what  string
	}{{f.NodesKnown, "nodes"}, {f.BeatsKnown, "leases"}, {f.PodsKnown, "pods"}} {
		if !u.known {
			lists = append(lists, u.what)
		}
	}
	return lists
}

func (s *Snapshot) addPods(pods []corev1.Pod) {
	for i := range pods {
		s.Pods = append(s.Pods, slimPod(&pods[i]))
	}
}

// readRest reads the remaining data: the gangs' objects and waiting pods of a namespace,
// PodDisruptionBudgets, and the objects of Dynamic Resource Allocation.
func (s *Snapshot) readRest(ctx context.Context, a *API, namespace string) error {
	objects, err := a.GroupsIn(ctx, namespace)
	if err != nil {
		return err
	}
	s.Groups, s.Notes = objects.List, append(s.Notes, objects.Notes...)
	waiting, err := a.listPods(ctx, namespace, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return a.failed("pods", err)
	}
	s.addPods(waiting)
	if budgets, err := a.Budgets(ctx); err == nil {
		s.PodDisruptionBudgets = []*policyv1.PodDisruptionBudget{}
		for i := range budgets {
			s.PodDisruptionBudgets = append(s.PodDisruptionBudgets, slimBudget(&budgets[i]))
		}
	}
	if h, err := a.HandedOut(ctx, namespace); err == nil {
		s.Slices, s.Claims, s.Classes = slimAll(h.Slices, slimSlice), slimAll(h.Claims, slimClaim), slimAll(h.Classes, slimClass)
	}
	return nil
}

func (a *API) heartbeatLeases(ctx context.Context, f *Facts) (out []*coordinationv1.Lease, err error) {
	if !f.BeatsKnown {
		return nil, nil
	}
	l, err := a.leases.Leases(a.Heartbeats).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, a.failed("leases in "+a.Heartbeats, err)
	}
	for i := range l.Items {
		if one := &l.Items[i]; beatOf(one).Node != "" {
			out = append(out, one)
		}
	}
	return out, nil
}

// Open reads a snapshot that Write wrote, and the options that the snapshot sets. `name` is the
// name of the snapshot in errors.
func Open(r io.Reader, name string) (*Snapshot, Options, error) {
	var s Snapshot
	o, err := s.open(r, name)
	return &s, o, err
}

func (s *Snapshot) open(r io.Reader, name string) (o Options, err error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return o, fmt.Errorf("%s: want a file that berth snapshot wrote: %w", name, err)
	}
	limited := &io.LimitedReader{R: unpacked, N: maxSnapshot}
	if err := json.NewDecoder(limited).Decode(s); err != nil {
		if limited.N == 0 {
			return o, fmt.Errorf("%s: more than %s after decompression, which is the maximum size of a snapshot", name, topology.FormatBytes(maxSnapshot))
		}
		return o, fmt.Errorf("%s: want a complete file that berth snapshot wrote: %w", name, err)
	}
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return o, fmt.Errorf("%s: want a complete file that berth snapshot wrote: %w", name, err)
	}
	switch {
	case s.Kind != snapshotKind:
		return o, fmt.Errorf("%s: kind %q: want %s, the kind of files that berth snapshot writes", name, s.Kind, snapshotKind)
	case s.Version != snapshotVersion:
		return o, fmt.Errorf("%s: version %d: want %d; take the snapshot with this release of berth, or open it with the one that took it", name, s.Version, snapshotVersion)
	}
	after, err := time.ParseDuration(s.StaleAfter)
	if err != nil {
		return o, fmt.Errorf("%s: staleAfter %q: want a duration like 1m0s", name, s.StaleAfter)
	}
	if err := s.check(name); err != nil {
		return o, err
	}
	for object, text := range s.malformed() {
		*text = cmp.Or(s.Malformed[object], *text)
	}
	if err := s.Terms.Check(); err != nil {
		return o, fmt.Errorf("%s: %w", name, err)
	}
	if s.reports, err = readTopologies(s.Reports); err != nil {
		return o, fmt.Errorf("%s: nodeTopologies: %w", name, err)
	}
	s.Reports = nil
	return Options{StaleAfter: after, Terms: s.Terms, Where: s.Where + ", snapshot " + name}, nil
}

// check returns an error if an entry of a list is null.
func (s *Snapshot) check(name string) error {
	for what, missing := range map[string]bool{
		"nodes": slices.Contains(s.Nodes, nil), "leases": slices.Contains(s.Leases, nil), "pods": slices.Contains(s.Pods, nil),
		"numatopologies": slices.Contains(s.Numatopologies, nil), "nodeResourceTopologies": slices.Contains(s.Zones, nil),
		"podDisruptionBudgets": slices.Contains(s.PodDisruptionBudgets, nil), "reservations": slices.Contains(s.Reservations, nil),
		"resourceSlices": slices.Contains(s.Slices, nil), "resourceClaims": slices.Contains(s.Claims, nil), "deviceClasses": slices.Contains(s.Classes, nil),
	} {
		if missing {
			return fmt.Errorf("%s: %s: an entry is null: want objects", name, what)
		}
	}
	return nil
}

// Now implements Source.
func (s *Snapshot) Now() time.Time { return time.Unix(s.Taken.Unix(), 0) }

// Facts implements Source. It returns the facts at the time of the snapshot.
func (s *Snapshot) Facts(_ context.Context, only string) (*Facts, error) {
	f := &Facts{
		Beats: map[string]Beat{}, Notes: slices.Clone(s.Notes), NodesKnown: !slices.Contains(s.Unknown, "nodes"),
		BeatsKnown: !slices.Contains(s.Unknown, "leases"), PodsKnown: !slices.Contains(s.Unknown, "pods"),
	}
	wanted := func(node string) bool { return only == "" || node == only }
	for _, n := range s.Nodes {
		if wanted(n.Name) {
			f.Nodes = append(f.Nodes, *n)
		}
	}
	for i := range s.reports {
		if wanted(s.reports[i].Name) {
			f.Reports = append(f.Reports, s.reports[i])
		}
	}
	for _, o := range s.Numatopologies {
		if wanted(o.Name) {
			f.Coarse = append(f.Coarse, o)
		}
	}
	for _, o := range s.Zones {
		if wanted(o.Name) {
			f.Coarse = append(f.Coarse, o)
		}
	}
	f.Reservations = s.Reservations
	for _, l := range s.Leases {
		if b := beatOf(l); b.Node != "" {
			f.Beats[b.Node] = b
		}
	}
	for _, p := range s.Pods {
		if p.Spec.NodeName != "" && wanted(p.Spec.NodeName) {
			f.Pods = append(f.Pods, *p)
		}
	}
	return f, nil
}

// PodsIn implements Source.
func (s *Snapshot) PodsIn(_ context.Context, namespace, only string) (out []corev1.Pod, err error) {
	for _, p := range s.Pods {
		if (namespace == metav1.NamespaceAll || p.Namespace == namespace) && (only == "" || p.Name == only) {
			out = append(out, *p)
		}
	}
	return out, nil
}

// Pod implements Source.
func (s *Snapshot) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pods, err := s.PodsIn(ctx, namespace, name)
	if len(pods) == 0 {
		return nil, err
	}
	return &pods[0], err
}

// NodeNames implements Source. It includes the nodes of reports whose Node is gone.
func (s *Snapshot) NodeNames(ctx context.Context) ([]string, error) {
	f, err := s.Facts(ctx, "")
	return slices.Sorted(maps.Keys(f.ByNode())), err
}

// errNoBudgets is the error of Snapshot.Budgets if the field PodDisruptionBudgets is nil.
var errNoBudgets = errors.New("the snapshot has no PodDisruptionBudgets: an older release of Berth took the snapshot, or the PodDisruptionBudgets could not be read")

// Budgets implements Source.
func (s *Snapshot) Budgets(context.Context) (out []policyv1.PodDisruptionBudget, err error) {
	if s.PodDisruptionBudgets == nil {
		return nil, errNoBudgets
	}
	for _, b := range s.PodDisruptionBudgets {
		out = append(out, *b)
	}
	return out, nil
}

// PriorityClasses implements Source.
func (s *Snapshot) PriorityClasses(context.Context) ([]PriorityClass, error) {
	return nil, ErrNoClasses
}

// DeviceClasses implements Source.
func (s *Snapshot) DeviceClasses(context.Context) (map[corev1.ResourceName]bool, []string, error) {
	return resourcesOf(s.Classes), nil, nil
}

// HandedOut implements Source.
func (s *Snapshot) HandedOut(context.Context, string) (*HandedOut, error) {
	h := &HandedOut{Slices: s.Slices, Claims: s.Claims, Classes: s.Classes, Absent: s.Slices == nil}
	for what, lacks := range map[string]bool{"ResourceSlices": h.Slices == nil, "ResourceClaims": h.Claims == nil, "DeviceClasses": h.Classes == nil} {
		if lacks {
			h.Notes = append(h.Notes, "the snapshot has no "+what+": an older release of Berth took the snapshot, or the "+what+" could not be read")
		}
	}
	slices.Sort(h.Notes)
	return h, nil
}

// ClaimTemplates implements Source.
func (s *Snapshot) ClaimTemplates(context.Context, string) ([]*resourcev1.ResourceClaimTemplate, []string, error) {
	return nil, []string{"a snapshot has no ResourceClaimTemplates: only those in the files are known"}, nil
}

// GroupsIn implements Source.
func (s *Snapshot) GroupsIn(_ context.Context, namespace string) (*Groups, error) {
	out := new(Groups)
	for _, raw := range s.Groups {
		var head struct {
			metav1.ObjectMeta `json:"metadata"`
		}
		if json.Unmarshal(raw, &head) != nil || namespace == metav1.NamespaceAll || head.Namespace == namespace {
			out.List = append(out.List, raw)
		}
	}
	return out, nil
}

// Namespaces implements Source. It returns the namespaces of the pods.
func (s *Snapshot) Namespaces(context.Context) ([]string, error) {
	seen := map[string]bool{}
	for _, p := range s.Pods {
		seen[p.Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
