package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/internal/wire"
)

// Changed notifies open pages that these nodes may have changed.
func (s *Server) Changed(nodes, _ []string) {
	s.streams.tell(s.rows.note(nodes, func(name string) bool { return s.Live.Row(name) != nil }))
}

func (s *Server) cluster(_ *http.Request, v Viewer) (any, error) {
	return map[string]any{
		"where": s.Live.Where(), "moves": s.Live.Moves(), "ready": s.isReady(), "now": s.Live.Now().Unix(),
		"version": version.Text(), "viewer": v.Name(), "shadow": s.Shadow != nil,
	}, nil
}

func (s *Server) isReady() bool {
	select {
	case <-s.Live.Ready():
		return true
	default:
		return false
	}
}

// changedRows returns the nodes that have changed since the change whose number is in the request.
func (s *Server) changedRows(r *http.Request, v Viewer) (any, error) {
	since, err := strconv.ParseUint(cmp.Or(r.URL.Query().Get("since"), "0"), 10, 64)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "since=" + quoted(r.URL.Query().Get("since")) + ": want a number that an earlier answer gave"}
	}
	number, names, went, anew := s.rows.since(since)
	head, err := json.Marshal(map[string]any{"number": number, "anew": anew, "gone": went, "ready": s.isReady(),
		"now": s.Live.Now().Unix(), "notes": s.Live.Notes(), "lost": lostOf(s.Live.Lost())})
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(append(head[:len(head)-1], `,"rows":[`...))
	for _, name := range names {
		text, err := s.rowText(name, v)
		if err != nil {
			return nil, err
		}
		if text != nil && !bytes.HasSuffix(out.Bytes(), []byte("[")) {
			out.WriteByte(',')
		}
		out.Write(text)
	}
	out.WriteString("]}\n")
	return text(out.Bytes()), nil
}

// lost describes the watches of the API server that are currently failing.
type lost struct {
	Resources []string `json:"resources"`
	// Since is the time when the first of these watches began to fail.
	Since int64  `json:"since"`
	Why   string `json:"why"`
}

func lostOf(all []source.Lost) *lost {
	if len(all) == 0 {
		return nil
	}
	out := &lost{Since: all[0].Since.Unix(), Why: clip.Text(all[0].Why, maxWhy)}
	for _, l := range all {
		out.Resources, out.Since = append(out.Resources, l.Resource), min(out.Since, l.Since.Unix())
	}
	return out
}

// maxWhy limits the error text of a failing watch, in bytes.
const maxWhy = 300

// rowText returns a row in JSON, without data that the viewer is not allowed to see. It returns nil
// if the node is gone. A row from which nothing is removed is encoded only once for all viewers.
func (s *Server) rowText(name string, v Viewer) ([]byte, error) {
	row := s.Live.Row(name)
	if row == nil {
		return nil, nil
	}
	if seen := shown(row, v); seen != row {
		return json.Marshal(seen)
	}
	return row.JSON()
}

// shown returns a row without the names that the viewer is not allowed to see.
func shown(row *survey.Row, v Viewer) *survey.Row {
	_, all := v.(everything)
	if (all || len(row.Held) == 0) && !slices.ContainsFunc(row.Namespaces, func(n string) bool { return !v.Sees(n) }) {
		return row
	}
	out := &survey.Row{Node: row.Node, Pool: row.Pool, Packages: row.Packages}
	out.Held = slices.Clone(row.Held)
	for i := range out.Held {
		if !all {
			out.Held[i].Reservation, out.Held[i].UID = hiddenPlace, ""
		}
	}
	out.Namespaces = slices.DeleteFunc(slices.Clone(row.Namespaces), func(n string) bool { return !v.Sees(n) })
	return out
}

// hidden replaces the name of a pod whose namespace the viewer is not allowed to see.
const hidden = "a pod of another namespace"

// hiddenPlace replaces the name of a Reservation, which has no namespace, for viewers who are not
// allowed to see all namespaces.
const hiddenPlace = "a Reservation"

type nodePage struct {
	Row        *survey.Row          `json:"row"`
	Machine    string               `json:"machine"` // the machine string
	SVG        string               `json:"svg,omitempty"`
	Legend     []machineview.Legend `json:"legend,omitempty"`
	Problem    string               `json:"problem,omitempty"`
	PCI        []machineview.Branch `json:"pci,omitempty"`
	Links      string               `json:"links,omitempty"` // a table of the links between devices
	Conditions []condition          `json:"conditions,omitempty"`
	Pods       []survey.Pod         `json:"pods"`
	Driven     *survey.Driven       `json:"driven,omitempty"`
	Labels     map[string]string    `json:"labels,omitempty"`
}

type condition struct {
	Source  string `json:"source"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   int64  `json:"since,omitempty"`
}

func (s *Server) node(r *http.Request, v Viewer) (any, error) {
	name := r.PathValue("name")
	st, ok := s.Live.Standing(name)
	row := s.Live.Row(name)
	if !ok || row == nil {
		return nil, missing("there is no node " + name)
	}
	out := nodePage{Row: shown(row, v), Machine: st.Machine.String(), Problem: st.Problem, Labels: st.Labels, Pods: []survey.Pod{}}
	if st.Berths != nil {
		hideTenants(st.Berths, v)
		out.SVG, out.Legend = machineview.BerthsInline(st.Machine, st.Berths)
	}
	if st.Machine != nil {
		out.PCI, out.Links = machineview.PCI(st.Machine), machineview.Links(st.Machine)
	}
	for _, c := range st.Conditions {
		one := condition{Source: c.Source, Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		if !c.Since.IsZero() {
			one.Since = c.Since.Unix()
		}
		out.Conditions = append(out.Conditions, one)
	}
	for _, p := range st.Pods {
		if v.Sees(p.Namespace) {
			out.Pods = append(out.Pods, p)
		}
	}
	var err error
	if out.Driven, _, err = query.DrivenOn(r.Context(), s.Live.Cluster(), s.Live.State(name)); err != nil {
		return nil, s.unanswered(err)
	}
	hideDriven(out.Driven, v)
	return out, nil
}

// hideTenants removes the tenants in namespaces that the viewer is not allowed to see, but keeps
// the hypothetical pods of the viewer's own question. In the Snapshot, it replaces the UIDs of the
// removed tenants with placeholders, and the names of their containers with "-". A tenant that
// stands for a Reservation stays, with placeholders for its name and UID.
func hideTenants(b *machineview.Berths, v Viewer) {
	_, all := v.(everything)
	if all {
		return
	}
	seen, held := map[string]bool{}, map[string]bool{} // by UID: the viewer may see the tenant; the tenant is a Reservation
	b.Tenants = slices.DeleteFunc(b.Tenants, func(t machineview.Tenant) bool {
		namespace, _, _ := strings.Cut(t.Name, "/")
		seen[t.UID], held[t.UID] = !t.Held && (t.Note == query.WouldCome || v.Sees(namespace)), t.Held
		return !seen[t.UID]
	})
	b.Snapshot.Pods = slices.Clone(b.Snapshot.Pods)
	for i := range b.Snapshot.Pods {
		p := &b.Snapshot.Pods[i]
		if seen[p.UID] {
			continue
		}
		name := hidden + " " + strconv.Itoa(i+1)
		if held[p.UID] {
			name = hiddenPlace + " " + strconv.Itoa(i+1)
			b.Tenants = append(b.Tenants, machineview.Tenant{UID: name, Name: name, Note: survey.StateHeld, Held: true})
		}
		p.UID = name
		p.Containers = slices.Clone(p.Containers)
		for j := range p.Containers {
			p.Containers[j].Name = "-"
		}
	}
}

// hideHolders replaces the names of pods that hold devices and whose namespaces the viewer is not
// allowed to see. It removes a holder of which only the UID is known.
func hideHolders(a *query.Answer, v Viewer) {
	if _, all := v.(everything); all || a.Refusal == nil {
		return
	}
	refusal := *a.Refusal
	refusal.Devices = slices.Clone(refusal.Devices)
	for i := range refusal.Devices {
		d := &refusal.Devices[i]
		namespace, _, named := strings.Cut(d.Holder, "/")
		switch {
		case !named:
			d.Holder = ""
		case !v.Sees(namespace):
			d.Holder = hidden
		}
	}
	a.Refusal = &refusal
}

// hideClaims removes the names of allocated claims in namespaces that the viewer is not allowed to
// see.
func hideClaims(all []query.Claimed, v Viewer) {
	for i := range all {
		for k := range all[i].Nodes {
			for n := range all[i].Nodes[k].NUMANodes {
				hideTaken(all[i].Nodes[k].NUMANodes[n].Taken, v)
			}
		}
	}
}

// hideDriven removes the claims in namespaces that the viewer is not allowed to see.
func hideDriven(d *survey.Driven, v Viewer) {
	if d == nil {
		return
	}
	for i := range d.Devices {
		hideTaken(d.Devices[i].Taken, v)
	}
	d.Claims = slices.DeleteFunc(d.Claims, func(c survey.ClaimOfPod) bool { return !v.Sees(c.Namespace) })
}

// hideTaken changes texts about taken devices ("DEVICE by NAMESPACE/CLAIM"). It removes the names
// of claims in namespaces that the viewer is not allowed to see.
func hideTaken(taken []string, v Viewer) {
	for i, text := range taken {
		device, by, _ := strings.Cut(text, " by ")
		if namespace, _, _ := strings.Cut(by, "/"); !v.Sees(namespace) {
			taken[i] = device + " by a claim of another namespace"
		}
	}
}

func (s *Server) pod(r *http.Request, v Viewer) (any, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	none := missing("there is no pod " + namespace + "/" + name)
	if !v.Sees(namespace) {
		return nil, none
	}
	sum, ok := s.Live.Pod(namespace, name)
	if !ok {
		return nil, none
	}
	done, err := s.explains.take()
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := query.Explain(r.Context(), s.Live, namespace, name, "")
	if err != nil {
		return map[string]any{"pod": sum, "problem": err.Error()}, nil
	}
	e.Nodes = shortened(e.Nodes, v)
	hideClaims(e.Claims, v)
	return map[string]any{"pod": sum, "explained": e}, nil
}

// maxExplains is the maximum number of concurrent explanations of pods and gangs. Each explanation
// asks all nodes.
const maxExplains = 4

// maxAnswers is the maximum number of nodes whose answers are listed one by one. The limit does not
// apply to the groups of nodes with the same answer, which cover all nodes.
const maxAnswers = 24

// shortened returns at most maxAnswers nodes: first one for each distinct answer, then others. It
// removes names that the viewer is not allowed to see.
func shortened(all []query.Answer, v Viewer) []query.Answer {
	var first, others []query.Answer
	said := map[string]bool{}
	for i := range all {
		hideHolders(&all[i], v)
		if a := &all[i]; said[a.Answer+a.Message] {
			others = append(others, *a)
		} else {
			said[a.Answer+a.Message] = true
			first = append(first, *a)
		}
	}
	return append(first, others...)[:min(len(all), maxAnswers)]
}

// found is a pod in a list of the page.
type found struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node,omitempty"`
	Phase     string `json:"phase"`
	Created   int64  `json:"created"`
}

func foundPod(p *corev1.Pod) found {
	return found{p.Namespace, p.Name, p.Spec.NodeName, cmp.Or(string(p.Status.Phase), "Pending"), p.CreationTimestamp.Unix()}
}

// waitingGroup is a group of pods that wait, or were refused by a kubelet, for the same reason.
type waitingGroup struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Title is the common reason of the group in Berth's words. It is "" if no node was asked.
	Title string `json:"title,omitempty"`
	// HeldBack is the reason why no pod of the group gets a node although nodes would admit it, or
	// nil.
	HeldBack *query.HeldBack `json:"heldBack,omitempty"`
	// Fits has other requests with which the first pod of Pods would fit now.
	Fits []string `json:"fits,omitempty"`
	// Gang is the gang of the first pod of Pods. It is nil if there is none, or if the gang has no
	// page.
	Gang *foundGang `json:"gang,omitempty"`
	// Said has the nodes' present answers about the first pod of Pods. It is nil if the nodes were
	// not asked.
	Said []said `json:"said,omitempty"`
	// Count is the number of all pods in the group. Pods has at most maxOfGroup of them.
	Count int     `json:"count"`
	Pods  []found `json:"pods"`
}

// said is a group of nodes with the same answer.
type said struct {
	Answer  string `json:"answer"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Count is the number of all nodes in the group. Nodes has the names of at most maxSaid of
	// them.
	Count int      `json:"count"`
	Nodes []string `json:"nodes"`
}

// maxSaid is the maximum number of nodes that are named for one answer.
const maxSaid = 12

func saidBy(groups []query.Group) (out []said) {
	for i := range groups {
		g := &groups[i]
		out = append(out, said{g.Answer, g.Message, g.Advice, len(g.Nodes), g.Nodes[:min(len(g.Nodes), maxSaid)]})
	}
	return out
}

// foundGang identifies the page of a gang.
type foundGang struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Name      string `json:"name"`
}

func gangFound(g *survey.Gang) *foundGang {
	if g == nil || g.Name == "" {
		return nil
	}
	return &foundGang{g.Namespace, g.Source, g.Name}
}

// maxOfGroup is the maximum number of pods of a group that are named.
const maxOfGroup = 50

// waiting returns the pods without a node, and the pods that a kubelet refused.
func (s *Server) waiting(v Viewer) (out []*corev1.Pod) {
	for _, p := range s.Live.Pods() {
		if (p.Spec.NodeName == "" && !wire.Ended(p) || wire.Refused(p)) && v.Sees(p.Namespace) {
			out = append(out, p)
		}
	}
	return out
}

func (s *Server) pending(r *http.Request, v Viewer) (any, error) {
	waiting, gangs := s.waiting(v), &survey.Gangs{}
	done, err := s.explains.take()
	free := err == nil // otherwise the page shows the scheduler's message
	if free {
		defer done()
		if gangs, err = s.Live.GangsOf(r.Context(), waiting); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	groups := []*waitingGroup{}
	by := map[[3]string]*waitingGroup{}
	for _, p := range waiting {
		gang := gangs.Of(p)
		reason, message := query.WhyWaiting(p, gang)
		key := [3]string{reason, message}
		if reason == corev1.PodReasonUnschedulable || reason == query.NothingWritten {
			key[1], key[2] = "", query.ShapeOf(p) // messages of the scheduler also depend on other plugins, so they cannot group pods
		}
		g := by[key]
		if g == nil {
			g = &waitingGroup{Reason: reason, Message: message, Gang: gangFound(gang)}
			by[key] = g
			groups = append(groups, g)
		}
		if g.Count++; len(g.Pods) < maxOfGroup {
			g.Pods = append(g.Pods, foundPod(p))
		}
	}
	slices.SortStableFunc(groups, moreWait)
	if free {
		groups = s.askNodes(r.Context(), groups)
	}
	return map[string]any{"total": len(waiting), "groups": groups}, nil
}

func moreWait(a, b *waitingGroup) int { return cmp.Compare(b.Count, a.Count) }

// maxAsked is the maximum number of groups of waiting pods about which all nodes are asked.
// askingLasts is the maximum time for these questions.
const (
	maxAsked    = 24
	askingLasts = 2 * time.Second
)

// askNodes asks the nodes about the oldest pod of each group that waits for a node, for maxAsked
// groups at most. It joins groups that get the same answer.
func (s *Server) askNodes(ctx context.Context, groups []*waitingGroup) []*waitingGroup {
	ctx, cancel := context.WithTimeout(ctx, askingLasts)
	defer cancel()
	out, asked := []*waitingGroup{}, 0
	for _, g := range groups {
		waits := g.Reason == corev1.PodReasonUnschedulable || g.Reason == query.NothingWritten || g.Reason == corev1.PodReasonSchedulingGated
		if waits && asked < maxAsked && ctx.Err() == nil {
			asked++
			if e, err := query.Explain(ctx, s.Live, g.Pods[0].Namespace, g.Pods[0].Name, ""); err == nil {
				g.answered(e)
			}
		}
		at := slices.IndexFunc(out, func(o *waitingGroup) bool { return o.alike(g) })
		if at < 0 {
			out = append(out, g)
			continue
		}
		out[at].Count += g.Count
		out[at].Pods = append(out[at].Pods, g.Pods[:min(len(g.Pods), maxOfGroup-len(out[at].Pods))]...)
	}
	slices.SortStableFunc(out, moreWait)
	return out
}

func (g *waitingGroup) answered(e *query.Explained) {
	g.Said, g.HeldBack, g.Title = saidBy(e.Groups), e.HeldBack, query.WaitsFor(e)
	for i := range e.Alternatives {
		g.Fits = append(g.Fits, e.Alternatives[i].Text)
	}
}

// alike reports whether the nodes gave the same answers about both groups. If no node was asked, it
// reports whether both groups have the same reason and message.
func (g *waitingGroup) alike(o *waitingGroup) bool {
	if g.Said == nil && g.HeldBack == nil {
		return o.Said == nil && o.HeldBack == nil && g.Reason == o.Reason && g.Message == o.Message
	}
	return g.Title == o.Title && reflect.DeepEqual(g.Said, o.Said) && reflect.DeepEqual(g.HeldBack, o.HeldBack)
}
