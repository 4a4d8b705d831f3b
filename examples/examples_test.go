package examples_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/examples"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestExamples reads every file as the API server does. Each has a description in its first line,
// has no unknown fields, and its pods fit on a machine with GPUs, network cards and huge pages,
// except the pod that is meant to be refused.
func TestExamples(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			data, err := examples.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), "# ") || !strings.Contains(string(index), "["+name+"]("+name+".yaml)") {
				t.Error("want a first line that says what it is, and an entry in README.md")
			}
			m, s := machine(t)
			for _, pod := range podsOf(t, name, data) {
				place(t, m, s, pod, name != "toolarge")
			}
		})
	}
	if _, err := examples.Read("nothing"); err == nil || !strings.Contains(err.Error(), "pinned") {
		t.Errorf("%v, want the names that there are", err)
	}
}

// podsOf returns the pods of a manifest, one for each kind.
func podsOf(t *testing.T, name string, data []byte) (pods []*corev1.Pod) {
	t.Helper()
	var head struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	switch {
	case head.Kind == "Reservation":
		var o koordinator.Reservation
		if err := yaml.UnmarshalStrict(data, &o); err != nil {
			t.Fatal(err)
		}
		r, err := wire.ReadReservation(&o)
		if err != nil {
			t.Fatal(err)
		}
		return []*corev1.Pod{r.Pod}
	case strings.Contains(string(data), batch.GroupVersion.String()):
		var job batch.Job
		if err := strict.Unmarshal(name, data, &job); err != nil {
			t.Fatal(err)
		}
		if wrong, unserved := jobs.Refused(&job), jobs.Unserved(&job); len(wrong) > 0 || len(unserved) > 0 {
			t.Errorf("refused: %v, not served: %v", wrong, unserved)
		}
		for i := range job.Spec.Tasks {
			pod := &corev1.Pod{ObjectMeta: job.Spec.Tasks[i].Template.ObjectMeta, Spec: job.Spec.Tasks[i].Template.Spec}
			pod.Namespace, pod.Name, pod.UID = "default", job.Spec.Tasks[i].Name, "u"
			pods = append(pods, pod)
		}
		return pods
	}
	read, err := manifest.Source{Paths: []string{name + ".yaml"}}.Read()
	if err != nil || read.Wrong > 0 {
		t.Fatal(err, read)
	}
	for i := range read.Templates {
		pods = append(pods, read.Templates[i].Pod)
	}
	return pods
}

// machine returns an empty node on which Berth decides.
func machine(t *testing.T) (*placement.Model, *placement.State) {
	t.Helper()
	hw := shapes.Machine(strings.Replace(shapes.GPUSwitched, "2Mi=0", "2Mi=8192", 1))
	pools := []placement.DevicePool{{Resource: "nvidia.com/gpu", Decided: true}, {Resource: "rdma/hca", Decided: true}}
	for i := range hw.Devices {
		switch d := &hw.Devices[i]; {
		case d.Kind() == topology.GPU:
			pools[0].Devices = append(pools[0].Devices, placement.Device{ID: d.Address})
		case d.Physical == "":
			pools[1].Devices = append(pools[1].Devices, placement.Device{ID: d.Address})
		}
	}
	view, err := placement.ViewOf(hw)
	if err != nil {
		t.Fatal(err)
	}
	m, err := placement.NewModel(view, placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000, Devices: placement.DevicesOf(hw, pools)})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewState()
	for _, p := range pools {
		s.SetPool(p)
	}
	return m, s
}

func place(t *testing.T, m *placement.Model, s *placement.State, pod *corev1.Pod, fits bool) {
	t.Helper()
	if ignored := wire.IgnoredKeys(pod, pod.Spec.SchedulerName); len(ignored) > 0 {
		t.Error(ignored)
	}
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		t.Fatal(err, ask.RulesErr)
	}
	if _, err := wire.ReadMembership(pod); err != nil {
		t.Error(err)
	}
	if why := wire.Unmet(m, &ask.Request); why != "" {
		t.Error(why)
	}
	if v := placement.Admit(s, &ask.Request); v.OK() != fits {
		t.Errorf("%s: %+v: %s", pod.Name, v, placement.Explain(s, &ask.Request))
	}
}
