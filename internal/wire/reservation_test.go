package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// reservationObject returns an object with the given spec, as the API server would serve it.
func reservationObject(t *testing.T, spec string) *koordinator.Reservation {
	t.Helper()
	o := new(koordinator.Reservation)
	text := `{"metadata":{"name":"r","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":` + spec + `}`
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	fourCPUs  = `"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"4","memory":"1Gi"}}}]}}`
	anyOwners = `"owners":[{"labelSelector":{"matchLabels":{"app":"x"}}}]`
)

func TestReadReservation(t *testing.T) {
	r, err := ReadReservation(reservationObject(t, `{`+fourCPUs+`,`+anyOwners+`}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC); !r.Once || !r.Expires.Equal(want) || r.Scheduler != "default-scheduler" || !OfReservation(r.Pod) {
		t.Errorf("%+v, want one owner, for 24 hours", r)
	}
	if got := r.Allocatable(); got.Cpu().Value() != 4 {
		t.Errorf("limits are no requests: %v", got)
	}
	forever, err := ReadReservation(reservationObject(t, `{"ttl":"0s","template":{"spec":{"nodeName":"n","schedulerName":"s","containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}},`+anyOwners+`}`))
	if err != nil || !forever.Expires.IsZero() || forever.Scheduler != "s" {
		t.Errorf("%+v, %v", forever, err)
	}
	terms := forever.Pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) != 1 || forever.Pod.Spec.NodeName != "" {
		t.Errorf("nodeName asks for %+v", terms)
	}
}

// TestContainersOfReservationsNeedNoNames: Koordinator's own examples have no names.
func TestContainersOfReservationsNeedNoNames(t *testing.T) {
	const one = `{"resources":{"limits":{"cpu":"1"}}}`
	r, err := ReadReservation(reservationObject(t, `{"template":{"spec":{"containers":[`+one+`,`+one+`]}},`+anyOwners+`}`))
	if err != nil || r.Pod.Spec.Containers[0].Name != "container-0" || r.Pod.Spec.Containers[1].Name != "container-1" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReservationsThatAreNotServed: every field that is not supported, or invalid, is refused by
// name.
func TestReservationsThatAreNotServed(t *testing.T) {
	inPod := func(more string) string {
		return `{"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"4"}}}],` + more + `}},` + anyOwners + `}`
	}
	container := func(c string) string { return `{"template":{"spec":{"containers":[` + c + `]}},` + anyOwners + `}` }
	owners := func(o string) string { return `{` + fourCPUs + `,"owners":[` + o + `]}` }
	many := strings.Repeat(`{"labelSelector":{}},`, 100)
	for want, spec := range map[string]string{
		`spec.template: "5": want an object`:        `{"template":5,` + anyOwners + `}`,
		"spec.template: ":                           `{` + anyOwners + `}`,
		"spec.template.spec.containers: ":           container(``),
		"containers without requests":               container(`{"name":"a"}`),
		"spec.preAllocation: ":                      `{"preAllocation":true,` + fourCPUs + `,` + anyOwners + `}`,
		"spec.somethingNew: ":                       `{"somethingNew":1,` + fourCPUs + `,` + anyOwners + `}`,
		"spec.ttl: ":                                `{"ttl":"-1s",` + fourCPUs + `,` + anyOwners + `}`,
		"spec.allocatePolicy: ":                     `{"allocatePolicy":"Greedy",` + fourCPUs + `,` + anyOwners + `}`,
		"spec.taints[0].effect: ":                   `{"taints":[{"key":"a","effect":"Sometimes"}],` + fourCPUs + `,` + anyOwners + `}`,
		"0 owners":                                  owners(``),
		"100 owners":                                owners(strings.TrimSuffix(many, ",")),
		"spec.owners[0]: ":                          owners(`{}`),
		"spec.owners[0].object: ":                   owners(`{"object":{}}`),
		"spec.owners[0].controller: ":               owners(`{"controller":{"kind":"Job"}}`),
		"a Pod of v1":                               owners(`{"object":{"kind":"Job","name":"j"}}`),
		"no fieldPath":                              owners(`{"object":{"name":"j","fieldPath":"spec"}}`),
		"spec.owners[0].labelSelector: ":            owners(`{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}`),
		"spec.template.spec.initContainers: ":       inPod(`"initContainers":[{"name":"i"}]`),
		"spec.template.spec.volumes: ":              inPod(`"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]`),
		"spec.template.spec.resourceClaims: ":       inPod(`"resourceClaims":[{"name":"c"}]`),
		"spec.template.spec.affinity.podAffinity: ": inPod(`"affinity":{"podAffinity":{}}`),
		"spec.template.spec.priorityClassName: ":    inPod(`"priorityClassName":"high"`),
		"spec.template.spec.containers[0].ports: ":  container(`{"name":"a","ports":[{"hostPort":80}],"resources":{"limits":{"cpu":"1"}}}`),
		`spec.template.spec.containers[0].ports: "80": want none together with hostNetwork`: `{"template":{"spec":{"hostNetwork":true,"containers":[{"name":"a","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"4"}}}]}},` + anyOwners + `}`,
		"spec.template.spec.containers[1].name: ":                                           container(`{"name":"a","resources":{"limits":{"cpu":"1"}}},{"name":"a"}`),
		`spec.template.spec.containers[0].resources.requests[cpu]: "-1"`:                    container(`{"name":"a","resources":{"requests":{"cpu":"-1"}}}`),
		`spec.template.metadata.annotations[berth.dev/policy]`:                              `{"template":{"metadata":{"annotations":{"berth.dev/policy":"restrictd"}},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"4"}}}]}},` + anyOwners + `}`,
		"no gang": `{"template":{"metadata":{"annotations":{"berth.dev/gang":"g"}},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"4"}}}]}},` + anyOwners + `}`,
	} {
		_, err := ReadReservation(reservationObject(t, spec))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "Reservation r: ") {
			t.Errorf("%s\n: %v\nwant %s", spec, err, want)
		}
	}
}

func podWith(name, cpu string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}}}
	for _, e := range edit {
		e(p)
	}
	return p
}

func TestOwners(t *testing.T) {
	yes := true
	controlled := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "ju", Controller: &yes}}
	}
	for i, c := range []struct {
		owner string
		pod   *corev1.Pod
		want  bool
	}{
		{`{"labelSelector":{"matchLabels":{"app":"x"}}}`, podWith("p", "1"), true},
		{`{"labelSelector":{"matchLabels":{"app":"y"}}}`, podWith("p", "1"), false},
		{`{"object":{"namespace":"ns","name":"p"}}`, podWith("p", "1"), true},
		{`{"object":{"namespace":"other","name":"p"}}`, podWith("p", "1"), false},
		{`{"object":{"name":"p"},"labelSelector":{"matchLabels":{"app":"y"}}}`, podWith("p", "1"), false},
		{`{"controller":{"name":"j","kind":"Job","namespace":"ns"}}`, podWith("p", "1", controlled), true},
		{`{"controller":{"name":"j","kind":"Job","namespace":"ns","controller":false}}`, podWith("p", "1", controlled), false},
		{`{"controller":{"name":"j","namespace":"other"}}`, podWith("p", "1", controlled), false},
		{`{"controller":{"name":"j"}}`, podWith("p", "1"), false},
		{`{"controller":{"uid":"other"}},{"labelSelector":{}}`, podWith("p", "1"), true},
	} {
		r, err := ReadReservation(reservationObject(t, `{`+fourCPUs+`,"owners":[`+c.owner+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		if r.Owns(c.pod) != c.want {
			t.Errorf("%d: %s: %t", i, c.owner, !c.want)
		}
	}
	r, err := ReadReservation(reservationObject(t, `{"taints":[{"key":"k","effect":"NoSchedule"}],`+fourCPUs+`,`+anyOwners+`}`))
	if err != nil || (*ReservationAffinity)(nil).Tolerates(r, podWith("p", "1")) {
		t.Errorf("a taint is tolerated by everybody, %v", err)
	}
	if !(*ReservationAffinity)(nil).Tolerates(r, podWith("p", "1", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: "Exists"}} })) {
		t.Error("a taint is tolerated by nobody")
	}
	if a := affinityOf(t, `{"tolerations":[{"key":"k","operator":"Exists"}]}`); !a.Tolerates(r, podWith("p", "1")) {
		t.Error("the tolerations of an affinity do not count")
	}
}

func TestRest(t *testing.T) {
	r, err := ReadReservation(reservationObject(t, `{`+fourCPUs+`,`+anyOwners+`}`))
	if err != nil {
		t.Fatal(err)
	}
	one, three := podWith("one", "1"), podWith("three", "3")
	more := podWith("more", "3500m")
	if !r.More || !r.Fits(three, []*corev1.Pod{one}) || !r.Fits(more, []*corev1.Pod{one}) || r.Fits(one, []*corev1.Pod{one, podWith("all", "9", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("2Gi")
	})}) {
		t.Error("3 of 4 CPUs are left beside one, and the rest is the node's")
	}
	only, err := ReadReservation(reservationObject(t, `{`+fourCPUs+`,`+anyOwners+`,"allocatePolicy":"Restricted"}`))
	if err != nil || only.More || !only.Fits(three, []*corev1.Pod{one}) || only.Fits(more, []*corev1.Pod{one}) {
		t.Errorf("Restricted: 3 of 4 CPUs are left beside one: %v", err)
	}
	rest := r.Rest([]*corev1.Pod{one})
	if got := rest.Spec.Containers[0].Resources.Requests; got.Cpu().Value() != 3 || got.Memory().String() != "1Gi" || !isGuaranteed(rest) {
		t.Errorf("left are %v", got)
	}
	memory := func(amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse(amount) }
	}
	for _, c := range []struct {
		owner *corev1.Pod
		left  int64 // thousandths of exclusive CPUs that owners may still get
	}{
		{podWith("all memory", "2", memory("2Gi")), 2000}, {podWith("a part", "500m"), 3000}, {podWith("nearly all", "3500m"), 0},
	} {
		got, err := HeldRequest(r.Rest([]*corev1.Pod{c.owner}))
		if err != nil || !got.Guaranteed || got.Containers[0].MilliCPU != c.left {
			t.Errorf("%s: left are %+v, %v, want %d thousandths", c.owner.Name, got, err, c.left)
		}
	}
	shared := r.Pod.DeepCopy()
	shared.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2500m")
	shared.Spec.Containers[0].Resources.Limits = shared.Spec.Containers[0].Resources.Requests
	if got, err := HeldRequest((&Reservation{Pod: shared}).Rest([]*corev1.Pod{one})); err != nil || got.Containers[0].MilliCPU != 1500 {
		t.Errorf("left of a place that no owner is to have to itself are %+v, %v", got, err)
	}
	two := r.Pod.DeepCopy()
	two.Spec.Containers = append(two.Spec.Containers, *two.Spec.Containers[0].DeepCopy())
	two.Spec.Containers[1].Name = "second"
	got, err := HeldRequest((&Reservation{Pod: two}).Rest([]*corev1.Pod{one}))
	if err != nil || len(got.Containers) != 2 || got.Containers[0].MilliCPU != 3000 || got.Containers[1].MilliCPU != 4000 {
		t.Errorf("left of two containers beside one CPU are %+v, %v", got, err)
	}
	big := podWith("big", "9", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("2Gi") })
	if rest := r.Rest([]*corev1.Pod{big}); rest != nil {
		t.Errorf("left are %v of nothing", rest.Spec.Containers)
	}
	if got := r.Allocated([]*corev1.Pod{big}); got.Cpu().Value() != 4 {
		t.Errorf("allocated is %v, of 4 CPUs", got)
	}
	held := Held(rest, "n")
	if *held.Spec.Priority != HeldPriority || held.Spec.NodeName != "n" || rest.Spec.NodeName != "" {
		t.Errorf("held by %+v", held.Spec)
	}
}

func TestAllocatedAnnotation(t *testing.T) {
	r, err := ReadReservation(reservationObject(t, `{`+fourCPUs+`,`+anyOwners+`}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]types.UID{r.WriteAllocated(): "u", "": "", "{": "", `{"uid":7}`: "", `{"uid":"` + strings.Repeat("x", 1<<20) + `"}`: ""} {
		if got := ReadAllocated(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AllocatedAnnotation: text}}}); got != want {
			t.Errorf("%.40q: %.40q", text, got)
		}
	}
}

func TestForgedDecisions(t *testing.T) {
	const template = `"template":{"metadata":{"annotations":{%s}},"spec":{"containers":[{"name":"a","resources":{"limits":
		{"cpu":"4","memory":"1Gi","hugepages-2Mi":"4Mi","example.com/gpu":"1","example.com/link":"5"}}}]}}`
	pod := func(annotations string) *corev1.Pod {
		r, err := ReadReservation(reservationObject(t, `{`+fmt.Sprintf(template, annotations)+`,`+anyOwners+`}`))
		if err != nil {
			t.Fatal(err)
		}
		return r.Pod
	}
	plain, alone := pod(""), pod(`"berth.dev/exclusive":"core"`)
	cpus := func(n int) (s topology.CPUSet) {
		for i := range n {
			s.Add(topology.CPUID(i))
		}
		return s
	}
	of := func(change func(c *placement.ContainerDecision)) *placement.Decision {
		c := placement.ContainerDecision{Name: "a", CPUs: cpus(4)}
		change(&c)
		return &placement.Decision{UID: "u", Containers: []placement.ContainerDecision{c}}
	}
	memory := func(resource string, bytes ...uint64) (out []placement.MemoryBlock) {
		for _, b := range bytes {
			out = append(out, placement.MemoryBlock{Resource: resource, NUMA: 1, Bytes: b})
		}
		return out
	}
	whole := of(func(c *placement.ContainerDecision) {
		c.Memory = append(memory("memory", 1<<29, 1<<29), memory("hugepages-2Mi", 4<<20)...)
		c.Devices = []placement.DeviceAllocation{{Resource: "example.com/gpu", IDs: []string{"g"}}}
		c.Provided = []placement.Provided{{Resource: "example.com/link", Place: "x", Amount: 5}}
	})
	core := of(func(c *placement.ContainerDecision) { c.Exclusive = joint.ExclusiveCore })
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		d    *placement.Decision
		says string // "" if it is accepted
	}{
		"what it asks for":      {plain, whole, ""},
		"another's":             {plain, &placement.Decision{UID: "other", Containers: whole.Containers}, `"other": want the decision for u`},
		"no containers":         {plain, &placement.Decision{UID: "u"}, "want the decision for u"},
		"another container":     {plain, of(func(c *placement.ContainerDecision) { c.Name = "b" }), `"b": want the container a`},
		"CPUs":                  {plain, of(func(c *placement.ContainerDecision) { c.CPUs = cpus(5) }), "a with 5000m of CPU"},
		"CPU time":              {plain, of(func(c *placement.ContainerDecision) { c.Shares = []placement.CPUShare{{MilliCPU: 1}} }), "a with 4001m of CPU"},
		"memory":                {plain, of(func(c *placement.ContainerDecision) { c.Memory = memory("memory", 1<<60) }), "a with more of memory by "},
		"memory that overflows": {plain, of(func(c *placement.ContainerDecision) { c.Memory = memory("memory", 1<<63, 1<<63) }), "a with more of memory by "},
		"huge pages for memory": {plain, of(func(c *placement.ContainerDecision) { c.Memory = memory("hugepages-2Mi", 1<<29) }), "a with more of hugepages-2Mi by 508Mi"},
		"huge pages of no kind": {plain, of(func(c *placement.ContainerDecision) { c.Memory = memory("hugepages-1Gi", 1<<30) }), "a with more of hugepages-1Gi by 1Gi"},
		"devices": {plain, of(func(c *placement.ContainerDecision) {
			c.Devices = []placement.DeviceAllocation{{Resource: "example.com/gpu", IDs: []string{"g", "h"}}}
		}), "a with 2 of example.com/gpu"},
		"provided, not asked": {plain, of(func(c *placement.ContainerDecision) {
			c.Provided = []placement.Provided{{Resource: "example.com/licence", Place: "x", Amount: 9}}
		}), "a with 9 of example.com/licence at x"},
		"exclusive, not asked":    {plain, core, "a with CPUs that are exclusive by core"},
		"exclusive, as asked":     {alone, core, ""},
		"exclusive, by another":   {alone, of(func(c *placement.ContainerDecision) { c.Exclusive = joint.ExclusiveNUMA }), "a with CPUs that are exclusive by numa"},
		"exclusive, and given up": {alone, of(func(*placement.ContainerDecision) {}), ""},
	} {
		err := CheckDecision(c.pod, c.d)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestReservationStatus: each status has the current conditions, and is written only once.
func TestReservationStatus(t *testing.T) {
	o := reservationObject(t, `{`+fourCPUs+`,`+anyOwners+`}`)
	r, err := ReadReservation(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	steps := []struct {
		news  ReservationNews
		phase koordinator.ReservationPhase
		want  string
	}{
		{ReservationNews{Phase: "Pending", Reason: "Unschedulable", Message: strings.Repeat("full ", 10000)}, "Pending", "Scheduled=False/Unschedulable"},
		{ReservationNews{Phase: "Available", Node: "n", Reason: "Available"}, "Available", "Scheduled=True/Scheduled Ready=True/Available"},
		{ReservationNews{Phase: "Available", Node: "n", Reason: "Available", Owners: []*corev1.Pod{podWith("p", "1")}}, "Available", "Scheduled=True/Scheduled Ready=True/Available"},
		{ReservationNews{Phase: "Failed", Node: "n", Reason: "Expired", Message: "late"}, "Failed", "Scheduled=True/Scheduled Ready=False/Expired"},
		{ReservationNews{Phase: "Pending", Reason: "Unschedulable", Message: "taken"}, "Pending", "Scheduled=False/Unschedulable"},
	}
	for i, s := range steps {
		status, news := r.Status(o, &s.news, now)
		if !news || status.Phase != s.phase || status.NodeName != s.news.Node || len(status.CurrentOwners) != len(s.news.Owners) {
			t.Errorf("%d: %t, %+v", i, news, status)
		}
		var said []string
		for _, c := range status.Conditions {
			said = append(said, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
			if len(c.Message) > 3<<10 {
				t.Errorf("%d: a message of %d bytes", i, len(c.Message))
			}
		}
		if got := strings.Join(said, " "); got != s.want {
			t.Errorf("%d: %s, want %s", i, got, s.want)
		}
		o.Status = *status
		if _, again := r.Status(o, &s.news, now.Add(time.Hour)); again {
			t.Errorf("%d: it is written again", i)
		}
	}
}
