package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Gang is a group of pods that start together, with its state.
type Gang struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source tells how the gang is declared, as wire.GangSource.String does: "gang" (Berth's
	// annotations of pods), "PodGroup.scheduling.volcano.sh" and so on.
	Source string      `json:"source"`
	State  gangs.Stage `json:"state"`
	// Phase is the phase in the status of the PodGroup, or "".
	Phase string `json:"phase,omitempty"`
	// Minimum is the number of pods that must start together, or 0 if it is unknown. Tasks has the
	// minimum of each task.
	Minimum int            `json:"minimum,omitempty"`
	Tasks   map[string]int `json:"tasks,omitempty"`
	// Members counts the gang's pods. Bound counts the pods with a node that have not ended and are
	// not being deleted. Succeeded counts the pods that succeeded.
	Members   int `json:"members"`
	Bound     int `json:"bound"`
	Succeeded int `json:"succeeded,omitempty"`
	// WaitingSeconds is the age of the oldest pod in Waiting; 0 if none waits.
	WaitingSeconds int64 `json:"waitingSeconds,omitempty"`
	// Why is the reason why the gang waits. It is "" if the gang does not wait, or if the reason is
	// unknown.
	Why string `json:"why,omitempty"`

	Key  wire.GangKey  `json:"-"`
	Spec wire.Gang     `json:"-"`
	Pods []*corev1.Pod `json:"-"`
	// Waiting are the members that wait for a node (gangs.Waits), the oldest first. Done counts the
	// members that have a node or have succeeded, and are not being deleted (gangs.Done).
	Waiting []*corev1.Pod `json:"-"`
	Done    gangs.Count   `json:"-"`
}

// Gangs are the gangs of a cluster, by namespace and name.
type Gangs struct {
	Gangs []Gang
	// Notes describe data that could not be read or understood.
	Notes []string
}

// Of returns the gang that a pod names, or nil. If the gang's name cannot be read, Of returns a
// gang without a name and with the State Wrong.
func (g *Gangs) Of(pod *corev1.Pod) *Gang {
	if !wire.InGang(pod) {
		return nil
	}
	says, err := wire.ReadMembership(pod)
	if says.Gang.IsZero() {
		return &Gang{Namespace: pod.Namespace, State: gangs.Wrong, Why: err.Error(), Members: 1}
	}
	at := slices.IndexFunc(g.Gangs, func(one Gang) bool { return one.Key == says.Gang })
	if at < 0 {
		return nil
	}
	return &g.Gangs[at]
}

// HoldsBack reports whether pods are missing, or the declaration is wrong or may not be read. In
// the first two cases, the scheduler tries no member of the gang, however many resources are free.
func (g *Gang) HoldsBack() bool {
	return g != nil && (g.State == gangs.Forming || g.State == gangs.Wrong)
}

// Gangs returns the gangs of the namespace, with their states and the numbers of their pods.
func (c *Cluster) Gangs(ctx context.Context) (*Gangs, error) {
	pods, err := c.From.PodsIn(ctx, c.Namespace, "")
	if err != nil {
		return nil, err
	}
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	objects, err := c.From.GroupsIn(ctx, c.Namespace)
	if err != nil {
		return nil, err
	}
	return gangsOf(all, objects, c.From.Now()), nil
}

// gangsOf builds the gangs from pods and from the objects that declare gangs.
func gangsOf(pods []*corev1.Pod, objects *source.Groups, now time.Time) *Gangs {
	out := &Gangs{Gangs: []Gang{}, Notes: slices.Clone(objects.Notes)}
	by := map[wire.GangKey]*gathering{}
	of := func(key wire.GangKey) *gathering {
		if by[key] == nil {
			by[key] = &gathering{key: key, hidden: objects.Hidden[key.Source]}
		}
		return by[key]
	}
	for _, raw := range objects.List {
		spec, wrong, err := ReadGroup(raw)
		if err != nil {
			out.Notes = append(out.Notes, err.Error())
			continue
		}
		g := of(spec.Key)
		g.spec, g.wrong, g.declared = spec, wrong, true
	}
	for _, pod := range pods {
		m, ok := gangs.PartOf(pod, true)
		if !ok {
			continue
		}
		if m.Says.Gang.IsZero() {
			out.Notes = append(out.Notes, m.Wrong.Error())
			continue
		}
		g := of(m.Says.Gang)
		g.pods, g.tasks = append(g.pods, pod), append(g.tasks, m.Says.Task)
		if gangs.Active(pod) {
			g.misread = cmp.Or(g.misread, m.Wrong)
		}
	}
	for _, g := range by {
		out.Gangs = append(out.Gangs, g.sum(now))
	}
	slices.Sort(out.Notes)
	slices.SortFunc(out.Gangs, func(a, b Gang) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Source, b.Source))
	})
	return out
}

// gathering collects the data of one gang.
type gathering struct {
	key      wire.GangKey
	spec     wire.Gang
	declared bool  // its object exists
	hidden   bool  // the user may not read its object
	wrong    error // the declaration is invalid, or Berth does not support it
	misread  error // the first invalid declaration of an active pod
	pods     []*corev1.Pod
	tasks    []string // the tasks of the pods
}

// active returns the pods that count for the gang (gangs.Active).
func (g *gathering) active() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(g.pods), func(pod *corev1.Pod) bool { return !gangs.Active(pod) })
}

// readMembers sets spec and wrong of a gang that no object declares, from the members' annotations.
func (g *gathering) readMembers() {
	if g.key.Source.HasObject() || g.misread != nil || len(g.pods) == 0 {
		return
	}
	counting := g.active()
	if len(counting) == 0 {
		counting = g.pods
	}
	g.spec, g.wrong = wire.GangOfMembers(g.key, counting)
}

// whatIsWrong returns the reason why the scheduler tries no member of the gang, or an error if the
// user may not read the gang's object. Otherwise it returns nil.
func (g *gathering) whatIsWrong() error {
	switch {
	case g.wrong != nil:
		return g.wrong
	case g.misread != nil:
		return g.misread
	case g.hidden:
		return fmt.Errorf("no permission to read %s", g.key)
	case g.key.Source.HasObject() && !g.declared:
		return fmt.Errorf("%s does not exist", g.key)
	}
	return wire.CheckMates(g.active())
}

// leaveFormer removes the pods of former runs of the gang's job (gangs.RunsOf).
func (g *gathering) leaveFormer() {
	runs := gangs.RunsOf(g.pods)
	var pods []*corev1.Pod
	var tasks []string
	for i, pod := range g.pods {
		if !runs.Former(pod) {
			pods, tasks = append(pods, pod), append(tasks, g.tasks[i])
		}
	}
	g.pods, g.tasks = pods, tasks
}

func (g *gathering) sum(now time.Time) Gang {
	g.leaveFormer()
	g.readMembers()
	out := Gang{
		Namespace: g.key.Namespace, Name: g.key.Name, Source: g.key.Source.String(), Phase: g.spec.Phase,
		Minimum: g.spec.Minimum, Tasks: g.spec.Tasks, Members: len(g.pods), Key: g.key, Spec: g.spec, Pods: g.pods,
	}
	facts, ending := g.count(&out)
	wrong := g.whatIsWrong()
	facts.Wrong = wrong != nil
	out.State = facts.Stage()
	if len(out.Waiting) > 0 {
		out.WaitingSeconds = Seconds(now.Sub(out.Waiting[0].CreationTimestamp.Time))
	}
	if out.State == gangs.Wrong {
		out.Why = wrong.Error()
	} else if out.State != gangs.Completed {
		out.Why = out.why(&facts, ending)
	}
	return out
}

// count counts the pods. `ending` is the number of pods that have not ended and are being deleted.
func (g *gathering) count(out *Gang) (facts gangs.Facts, ending int) {
	facts = gangs.Facts{Spec: &g.spec, Pods: len(g.pods), Was: g.spec.Ran, Waiting: new(gangs.Count), Done: &out.Done}
	for i, pod := range g.pods {
		placed := pod.Spec.NodeName != ""
		switch {
		case wire.Ended(pod) && gangs.Done(pod, placed):
			out.Succeeded++
		case gangs.Active(pod) && placed:
			out.Bound++
		}
		switch {
		case wire.Ended(pod):
			facts.Ended++
		case pod.DeletionTimestamp != nil:
			ending++
		}
		facts.Was = facts.Was || placed && wire.GangWasWhole(pod)
		if gangs.Done(pod, placed) {
			out.Done.Add(g.tasks[i], 1)
		}
		if gangs.Waits(pod, placed) {
			facts.Waiting.Add(g.tasks[i], 1)
			out.Waiting = append(out.Waiting, pod)
		}
	}
	slices.SortFunc(out.Waiting, gangs.Compare)
	return facts, ending
}

// why explains why a valid gang has not started, or why its additional pods wait.
func (g *Gang) why(facts *gangs.Facts, ending int) string {
	lack := gangs.Lacks(&g.Spec, facts.Waiting, facts.Done)
	missing := gangs.Missing(g.Pods)
	switch enough := lack == "" || gangs.Enough(&g.Spec, facts.Done, facts.Was); {
	case enough && len(g.Waiting) == 0:
		return ""
	case enough:
		return whySaid(g.Pods, g.Waiting[0])
	case missing != "":
		return lack + " are there; " + missing
	case ending > 0 && len(g.Waiting) == 0:
		return lack + " are there, and " + wire.Counted(ending, "pod") + " ending"
	case gangs.NotLetIn(g.Spec.Phase) && g.Spec.Unschedulable != "": // the group was not admitted, so its controller creates no pods
		return lack + " are there: " + g.Spec.Unschedulable
	}
	return lack + " are there"
}

// whySaid returns the scheduler's message about a waiting gang, or "". The argument `first` is the
// member that the scheduler tries for the whole gang, so whySaid prefers its message to the
// messages of other members.
func whySaid(pods []*corev1.Pod, first *corev1.Pod) string {
	said := saidOf(first)
	for _, pod := range pods {
		if said == "" && pod.Spec.NodeName == "" && gangs.Active(pod) {
			said = saidOf(pod)
		}
	}
	return said
}

// saidOf returns a scheduler's message about a pending pod, without the parts that
// WithoutPreemption removes. If a part of the message is Berth's, saidOf returns only this part.
func saidOf(pod *corev1.Pod) string {
	text := wire.Unscheduled(pod).Message
	if _, own, found := strings.Cut(text, "Berth: "); found {
		text = own
	}
	return WithoutPreemption(text)
}

// WithoutPreemption removes two parts that kube-scheduler may add to a refusal: the result of
// preemption, and the remark "no new claims to deallocate".
func WithoutPreemption(message string) string {
	message, _, _ = strings.Cut(message, " preemption: ")
	for _, noise := range []string{",", "no new claims to deallocate", ",", "."} {
		message = strings.TrimSuffix(strings.TrimSpace(message), noise)
	}
	return message
}

// ReadGroup reads an object that declares a gang. The result `wrong` describes a field that is
// invalid or that Berth does not support. The result `err` means that the object cannot be read.
func ReadGroup(raw json.RawMessage) (spec wire.Gang, wrong, err error) {
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return spec, nil, fmt.Errorf("a PodGroup: %w", err)
	}
	err = fmt.Errorf("apiVersion %q: want %s, %s or %s", head.APIVersion, volcano.GroupVersion, sigs.GroupVersion, sigs.OldGroupVersion)
	for _, kind := range wire.GroupKinds {
		if kind.Version.String() != head.APIVersion {
			continue
		}
		object := kind.New()
		if err = json.Unmarshal(raw, object); err == nil {
			spec, wrong = kind.Read(object)
		}
	}
	if err != nil {
		err = fmt.Errorf("PodGroup %s/%s: %w", head.Namespace, head.Name, err)
	}
	return spec, wrong, err
}

// GangNames returns the names of the gangs of the namespace. The argument `source` is a part of
// Gang.Source in lower case, or "" for any.
func (c *Cluster) GangNames(ctx context.Context, source string) ([]string, error) {
	all, err := c.Gangs(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all.Gangs {
		if g := &all.Gangs[i]; strings.Contains(strings.ToLower(g.Source), source) {
			names = append(names, g.Name)
		}
	}
	return names, nil
}

// GangNamed finds a gang of the namespace. The argument `source` is a part of Gang.Source in lower
// case, or "" for any.
func (c *Cluster) GangNamed(ctx context.Context, source, name string) (_ *Gang, notes []string, err error) {
	all, err := c.Gangs(ctx)
	if err != nil {
		return nil, nil, err
	}
	var found []*Gang
	for i := range all.Gangs {
		if g := &all.Gangs[i]; g.Name == name && g.Namespace == c.Namespace && strings.Contains(strings.ToLower(g.Source), source) {
			found = append(found, g)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, fmt.Errorf("no %s %s in namespace %s at %s", cmp.Or(source, "gang"), name, c.Namespace, c.Where)
	case 1:
		return found[0], all.Notes, nil
	}
	return nil, nil, fmt.Errorf("gang %s/%s: %d gangs have this name: want %s", c.Namespace, name, len(found), wantNamed(found))
}

// wantNamed describes arguments that select one of several gangs with the same name.
func wantNamed(found []*Gang) string {
	groups := 0
	for _, g := range found {
		if g.Key.Source.HasObject() {
			groups++
		}
	}
	var kinds []string
	for _, g := range found {
		switch source := g.Key.Source; {
		case groups == 1 && source.HasObject():
			kinds = append(kinds, "podgroup")
		case source.HasObject():
			kinds = append(kinds, strings.ToLower(g.Source))
		}
	}
	const pod = "the name of one of its pods"
	if len(kinds) == 0 {
		return pod
	}
	return strings.Join(kinds, " or ") + " before the name, or " + pod
}
