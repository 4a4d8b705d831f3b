package survey

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

// stillKind and stillVersion identify the file of a snapshot. The version changes if older readers
// would misread a new file.
const (
	stillKind    = "BerthSnapshot"
	stillVersion = 1
	// maxStill is the maximum number of bytes that Open unpacks from a file.
	maxStill = 4 << 30
)

// still is a cluster at one moment, with only the data that a survey reads.
type still struct {
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
	// Reports are unparsed, so that the output can also show unreadable reports.
	Reports []json.RawMessage       `json:"nodeTopologies"`
	Leases  []*coordinationv1.Lease `json:"leases"`
	Pods    []*corev1.Pod           `json:"pods"`
	// These two lists are the reports that contain only amounts.
	Numatopologies []*nodeinfo.Numatopology    `json:"numatopologies,omitempty"`
	Zones          []*nrt.NodeResourceTopology `json:"nodeResourceTopologies,omitempty"`
	// Groups are the objects that declare gangs, mostly unparsed. Files of older releases do not
	// have this field.
	Groups []json.RawMessage `json:"podGroups,omitempty"`
	// Reservations are Koordinator's Reservations. Files of older releases do not have this field.
	Reservations []*koordinator.Reservation `json:"reservations,omitempty"`
	// Malformed has the errors of reports and Reservations that do not fit their types, by list and
	// name. Files of older releases do not have this field.
	Malformed map[string]string `json:"malformed,omitempty"`
	// Budgets is nil if the budgets could not be read, or if an older release took the snapshot.
	Budgets []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`
	// Each of these lists is nil if it could not be read, or if an older release took the snapshot.
	Slices  []*resourcev1.ResourceSlice `json:"resourceSlices"`
	Claims  []*resourcev1.ResourceClaim `json:"resourceClaims"`
	Classes []*resourcev1.DeviceClass   `json:"deviceClasses"`

	reports []v1alpha1.NodeTopology // the parsed Reports
}

// Snapshot writes to w the data that a survey of a live cluster reads, such as nodes, reports,
// heartbeats and pods. It omits the pods' commands, environments, contents of volumes and unrelated
// annotations. The format is JSON, compressed with gzip.
func (c *Cluster) Snapshot(ctx context.Context, w io.Writer) error {
	a, err := c.live()
	if err != nil {
		return fmt.Errorf("%s is a snapshot already: want a live cluster", c.Where)
	}
	f, raw, err := a.readFacts(ctx, "")
	if err != nil {
		return err
	}
	out := still{Kind: stillKind, Version: stillVersion, Taken: a.now().UTC(), Where: c.Where, StaleAfter: c.StaleAfter.String(), Terms: c.Terms, Reports: raw}
	out.keep(f)
	if out.Leases, err = a.heartbeatLeases(ctx, f); err != nil {
		return err
	}
	namespace := c.Namespace
	if f.podsKnown {
		namespace = metav1.NamespaceAll
	}
	if err := out.readRest(ctx, a, namespace); err != nil {
		return err
	}
	packed := gzip.NewWriter(w)
	return errors.Join(json.NewEncoder(packed).Encode(&out), packed.Close())
}

// keep copies the facts that are written without change: all except reports and heartbeats.
func (s *still) keep(f *facts) {
	s.Notes, s.Unknown = f.notes, f.unknown()
	for i := range f.nodes {
		s.Nodes = append(s.Nodes, slimNode(&f.nodes[i]))
	}
	for _, o := range f.coarse {
		switch o := o.(type) {
		case *nodeinfo.Numatopology:
			s.Numatopologies = append(s.Numatopologies, o)
		case *nrt.NodeResourceTopology:
			s.Zones = append(s.Zones, o)
		}
	}
	for _, o := range f.reservations {
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
	s.addPods(f.pods)
}

// malformed returns the errors of the objects that may not fit their types. JSON leaves them out.
func (s *still) malformed() map[string]*string {
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

// unknown names the lists that could not be read.
func (f *facts) unknown() (lists []string) {
	for _, u := range []struct {
		known bool
		what  string
	}{{f.nodesKnown, "nodes"}, {f.beatsKnown, "leases"}, {f.podsKnown, "pods"}} {
		if !u.known {
			lists = append(lists, u.what)
		}
	}
	return lists
}

func (s *still) addPods(pods []corev1.Pod) {
	for i := range pods {
		s.Pods = append(s.Pods, slimPod(&pods[i]))
	}
}

// readRest reads the remaining data: the gangs' objects and waiting pods of a namespace,
// PodDisruptionBudgets, and the objects of Dynamic Resource Allocation.
func (s *still) readRest(ctx context.Context, a *api, namespace string) error {
	objects, err := a.groupsIn(ctx, namespace)
	if err != nil {
		return err
	}
	s.Groups, s.Notes = objects.list, append(s.Notes, objects.notes...)
	waiting, err := a.listPods(ctx, namespace, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return a.failed("pods", err)
	}
	s.addPods(waiting)
	if budgets, err := a.budgets(ctx); err == nil {
		s.Budgets = []*policyv1.PodDisruptionBudget{}
		for i := range budgets {
			s.Budgets = append(s.Budgets, slimBudget(&budgets[i]))
		}
	}
	if h, err := a.handedOut(ctx, namespace); err == nil {
		s.Slices, s.Claims, s.Classes = slimAll(h.slices, slimSlice), slimAll(h.claims, slimClaim), slimAll(h.classes, slimClass)
	}
	return nil
}

// heartbeatLeases lists the Leases that are heartbeats.
func (a *api) heartbeatLeases(ctx context.Context, f *facts) (out []*coordinationv1.Lease, err error) {
	if !f.beatsKnown {
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

// Open reads a snapshot, and returns a Cluster that never changes. name is the name of the snapshot
// in errors.
func Open(r io.Reader, name string) (*Cluster, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%s: want a file that berth snapshot wrote: %w", name, err)
	}
	limited := &io.LimitedReader{R: unpacked, N: maxStill}
	var s still
	if err := json.NewDecoder(limited).Decode(&s); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("%s: more than %s after decompression: want a snapshot of one cluster", name, topology.FormatBytes(maxStill))
		}
		return nil, fmt.Errorf("%s: want a complete file that berth snapshot wrote: %w", name, err)
	}
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return nil, fmt.Errorf("%s: want a complete file that berth snapshot wrote: %w", name, err)
	}
	switch {
	case s.Kind != stillKind:
		return nil, fmt.Errorf("%s: kind %q: want %s, a file that berth snapshot wrote", name, s.Kind, stillKind)
	case s.Version != stillVersion:
		return nil, fmt.Errorf("%s: version %d: want %d; take the snapshot with this release of berth, or open it with the one that took it", name, s.Version, stillVersion)
	}
	after, err := time.ParseDuration(s.StaleAfter)
	if err != nil {
		return nil, fmt.Errorf("%s: staleAfter %q: want a duration like 1m0s", name, s.StaleAfter)
	}
	if err := s.check(name); err != nil {
		return nil, err
	}
	for object, text := range s.malformed() {
		*text = cmp.Or(s.Malformed[object], *text)
	}
	if err := s.Terms.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.reports, err = readTopologies(s.Reports); err != nil {
		return nil, fmt.Errorf("%s: nodeTopologies: %w", name, err)
	}
	s.Reports = nil
	c := &Cluster{Options: Options{StaleAfter: after, Terms: s.Terms, Where: s.Where + ", snapshot " + name}, from: &s}
	return c, nil
}

// check returns an error if an entry of a list is null.
func (s *still) check(name string) error {
	for what, missing := range map[string]bool{
		"nodes": slices.Contains(s.Nodes, nil), "leases": slices.Contains(s.Leases, nil), "pods": slices.Contains(s.Pods, nil),
		"numatopologies": slices.Contains(s.Numatopologies, nil), "nodeResourceTopologies": slices.Contains(s.Zones, nil),
		"podDisruptionBudgets": slices.Contains(s.Budgets, nil), "reservations": slices.Contains(s.Reservations, nil),
		"resourceSlices": slices.Contains(s.Slices, nil), "resourceClaims": slices.Contains(s.Claims, nil), "deviceClasses": slices.Contains(s.Classes, nil),
	} {
		if missing {
			return fmt.Errorf("%s: %s: an entry is null: want objects", name, what)
		}
	}
	return nil
}

// now implements source.
func (s *still) now() time.Time { return time.Unix(s.Taken.Unix(), 0) }

// facts implements source. It returns the facts at the time of the snapshot.
func (s *still) facts(_ context.Context, only string) (*facts, error) {
	f := &facts{
		beats: map[string]beat{}, notes: slices.Clone(s.Notes), nodesKnown: !slices.Contains(s.Unknown, "nodes"),
		beatsKnown: !slices.Contains(s.Unknown, "leases"), podsKnown: !slices.Contains(s.Unknown, "pods"),
	}
	wanted := func(node string) bool { return only == "" || node == only }
	for _, n := range s.Nodes {
		if wanted(n.Name) {
			f.nodes = append(f.nodes, *n)
		}
	}
	for i := range s.reports {
		if wanted(s.reports[i].Name) {
			f.reports = append(f.reports, s.reports[i])
		}
	}
	for _, o := range s.Numatopologies {
		if wanted(o.Name) {
			f.coarse = append(f.coarse, o)
		}
	}
	for _, o := range s.Zones {
		if wanted(o.Name) {
			f.coarse = append(f.coarse, o)
		}
	}
	f.reservations = s.Reservations
	for _, l := range s.Leases {
		if b := beatOf(l); b.Node != "" {
			f.beats[b.Node] = b
		}
	}
	for _, p := range s.Pods {
		if p.Spec.NodeName != "" && wanted(p.Spec.NodeName) {
			f.pods = append(f.pods, *p)
		}
	}
	return f, nil
}

// podsIn implements source.
func (s *still) podsIn(_ context.Context, namespace, only string) (out []corev1.Pod, err error) {
	for _, p := range s.Pods {
		if (namespace == metav1.NamespaceAll || p.Namespace == namespace) && (only == "" || p.Name == only) {
			out = append(out, *p)
		}
	}
	return out, nil
}

// pod implements source.
func (s *still) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pods, err := s.podsIn(ctx, namespace, name)
	if len(pods) == 0 {
		return nil, err
	}
	return &pods[0], err
}

// nodeNames implements source. It includes the nodes of reports whose Node is gone.
func (s *still) nodeNames(ctx context.Context) ([]string, error) {
	f, err := s.facts(ctx, "")
	return slices.Sorted(maps.Keys((&Survey{facts: f}).perNode())), err
}

// errNoBudgets is the error of reading PodDisruptionBudgets from a snapshot that has none.
var errNoBudgets = errors.New("the snapshot has no PodDisruptionBudgets: an older release of Berth took the snapshot, or the PodDisruptionBudgets could not be read")

// budgets implements source.
func (s *still) budgets(context.Context) (out []policyv1.PodDisruptionBudget, err error) {
	if s.Budgets == nil {
		return nil, errNoBudgets
	}
	for _, b := range s.Budgets {
		out = append(out, *b)
	}
	return out, nil
}

// priorityClasses implements source.
func (s *still) priorityClasses(context.Context) ([]priorityClass, error) { return nil, errNoClasses }

// deviceClasses implements source.
func (s *still) deviceClasses(context.Context) (map[corev1.ResourceName]bool, []string, error) {
	return resourcesOf(s.Classes), nil, nil
}

// handedOut implements source.
func (s *still) handedOut(context.Context, string) (*handedOut, error) {
	h := &handedOut{slices: s.Slices, claims: s.Claims, classes: s.Classes, absent: s.Slices == nil}
	for what, lacks := range map[string]bool{"ResourceSlices": h.slices == nil, "ResourceClaims": h.claims == nil, "DeviceClasses": h.classes == nil} {
		if lacks {
			h.notes = append(h.notes, "the snapshot has no "+what+": an older release of Berth took the snapshot, or the "+what+" could not be read")
		}
	}
	slices.Sort(h.notes)
	return h, nil
}

// claimTemplates implements source.
func (s *still) claimTemplates(context.Context, string) ([]*resourcev1.ResourceClaimTemplate, []string, error) {
	return nil, []string{"a snapshot has no ResourceClaimTemplates: only those in the files are known"}, nil
}

// groupsIn implements source.
func (s *still) groupsIn(_ context.Context, namespace string) (*groupObjects, error) {
	out := new(groupObjects)
	for _, raw := range s.Groups {
		var head struct {
			metav1.ObjectMeta `json:"metadata"`
		}
		if json.Unmarshal(raw, &head) != nil || namespace == metav1.NamespaceAll || head.Namespace == namespace {
			out.list = append(out.list, raw)
		}
	}
	return out, nil
}

// liveOf returns a Live with the data of the snapshot, which never changes.
func (s *still) liveOf(c *Cluster) *Live {
	f, _ := s.facts(context.Background(), "") // a file always answers
	l := &Live{c: c, s: c.surveyOf(f), rows: map[string]*Row{}, ready: make(chan struct{}), still: map[string]*corev1.Pod{}}
	for _, p := range s.Pods {
		l.still[keyOf(p.Namespace, p.Name)] = p
	}
	for name, n := range l.s.nodes {
		l.rows[name] = n.row(l.s.Now)
	}
	close(l.ready)
	return l
}

// namespaces implements source. It returns the namespaces of the pods.
func (s *still) namespaces(context.Context) ([]string, error) {
	seen := map[string]bool{}
	for _, p := range s.Pods {
		seen[p.Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
