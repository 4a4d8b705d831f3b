package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/test/fields"
)

// behaviours are things that nodes and users may do to the pods of a Job.
var behaviours = []func(*world, *corev1.Pod){
	onceAll(nil),
	onceAll(never("j-a-0")),
	onceAll(evictOnce("j-a-0")),
	onceAll(func(w *world, pod *corev1.Pod) bool {
		if pod.Name == "j-a-0" && !ended(pod) {
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, FinishedAt: metav1.NewTime(w.now)},
			}}}
			if err := w.client.Status().Update(w.t.Context(), pod); err != nil {
				w.t.Fatal(err)
			}
		}
		return true
	}),
	func(w *world, pod *corev1.Pod) { // a container is restarted twice
		if pod.Name == "j-a-0" {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 2}}
		}
		w.set(pod, corev1.PodRunning, 0)
	},
	func(w *world, pod *corev1.Pod) { // all but one run
		if pod.Name != "j-c-0" {
			w.set(pod, corev1.PodRunning, 0)
		}
	},
}

// history records all effects of a Job, step by step, with each of the behaviours.
func history(t *testing.T, object map[string]any) string {
	t.Helper()
	spec, err := json.Marshal(object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, fate := range behaviours {
		w := newWorld(t, string(spec), fate)
		fmt.Fprintln(&out, "behaviour", i)
		before := ""
		for range 10 {
			w.settle()
			now := w.record()
			if now == before {
				break // nothing more happens
			}
			before = now
			out.WriteString(now)
			w.act()
		}
		w.now = w.now.Add(time.Hour) // except timeouts
		w.settle()
		out.WriteString(w.record())
	}
	return out.String()
}

// uids matches UIDs of the world. They are assigned in the order of creation, which is random for
// objects that are created at the same time.
var uids = regexp.MustCompile(`"uid":"uid-\d+",`)

// record prints all objects.
func (w *world) record() string {
	w.t.Helper()
	var out strings.Builder
	for _, list := range []client.ObjectList{
		&batch.JobList{}, &corev1.PodList{}, &group.PodGroupList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ConfigMapList{},
		&corev1.ServiceList{}, &networkingv1.NetworkPolicyList{},
	} {
		if err := w.client.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		if jobs, ok := list.(*batch.JobList); ok {
			for i := range jobs.Items {
				jobs.Items[i].Spec = batch.JobSpec{} // only its effects count
			}
		}
		text, err := json.Marshal(list)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n", uids.ReplaceAll(text, nil))
	}
	return out.String()
}

// TestEveryFieldOfAJobCounts: each field that docs/reference/dialects.md lists as read changes the
// result of a Job. The name and the namespace of a template do not.
func TestEveryFieldOfAJobCounts(t *testing.T) {
	kind := fields.KindNamed("Job of batch.volcano.sh/v1alpha1")
	without := map[string]string{} // the effects of each base
	for i := range kind.Fields {
		f := &kind.Fields[i]
		if f.Fate != fields.Read && f.Fate != fields.Idle {
			continue
		}
		if without[f.Base] == "" {
			plain, err := kind.Plain(f)
			if err != nil {
				t.Fatal(err)
			}
			without[f.Base] = history(t, plain)
		}
		t.Run(f.Path, func(t *testing.T) {
			with, err := kind.With(f)
			if err != nil {
				t.Fatal(err)
			}
			if differs := without[f.Base] != history(t, with); differs != (f.Fate == fields.Read) {
				t.Errorf("what comes of the Job differs: %v, though the table says: %s", differs, f.Fate)
			}
		})
	}
}

// TestEveryFieldOfATemplateReachesThePods tries each field that Volcano's definition has in a pod
// template, at any depth.
func TestEveryFieldOfATemplateReachesThePods(t *testing.T) {
	all, err := fields.Definitions("../../../shared/neighbours")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the neighbours' definitions are not there: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	kind, fed := fields.KindNamed("Job of batch.volcano.sh/v1alpha1"), 0
	podOfFirst := func(object map[string]any, err error) *corev1.Pod {
		t.Helper()
		text, errOut := json.Marshal(object)
		var job batch.Job
		if err = errors.Join(err, errOut, json.Unmarshal(text, &job)); err != nil {
			t.Fatal(err)
		}
		s := specOf(&job)
		return podOf(&job, &s, member{&s.tasks[0], 0}, "berth")
	}
	for _, d := range all {
		if d.File != kind.CRD {
			continue
		}
		for _, leaf := range d.Leaves {
			f := kind.Of(leaf.Path)
			if f == nil || f.Path != "spec.tasks[].template" {
				continue
			}
			fed++
			if reflect.DeepEqual(podOfFirst(kind.WithLeaf(f, leaf)), podOfFirst(kind.Plain(f))) {
				t.Errorf("%s does not reach the pods", leaf.Path)
			}
		}
	}
	if fed < 500 {
		t.Errorf("only %d fields of a template were fed", fed)
	}
}
