package gangs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func second(text string) metav1.Time {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return metav1.Unix(int64(n), 0)
}

// TestFormer: pods are given as RUN:PHASE with their times of creation and end. former lists the
// pods of former runs.
func TestFormer(t *testing.T) {
	for _, tc := range []struct{ pods, former string }{
		{"one:Running:1 one:Succeeded:1:5", ""},
		{"one:Succeeded:1:5 one:Failed:1:5", ""},
		{"one:Succeeded:1:5 two:Succeeded:7:9", ""},
		{"one:Succeeded:1:5 one:Failed:1:6 two:Pending:9", "0 1"},
		{"one:Succeeded:1:5 two:Pending:9 one:Running:2", ""},
		{"one:Succeeded:1:5 two:Pending:9 two:Running:4", ""}, // a job's launcher and its workers
		{"one:Succeeded:1:5 two:Pending:9 three:Running:8", "0"},
		{"one:Succeeded:1:5 two:Failed:1:6 two:Pending:9 three:Pending:9", ""},
		{"one:Succeeded:1:5 two:Failed:1:6 two:Pending:9", ""}, // run two began while run one continued
		{"one:Succeeded:1:5 two:Running:5", ""},                // within the same second
		{"one:Failed:3 two:Running:2", ""},                     // the time of its end is unknown
		{"one:Failed:1 two:Running:2", "0"},
		{":Succeeded:1:5 :Running:9", ""},
		{":Succeeded:1:5 two:Running:9", "0"},
		{"one:Failed:1:5 :Running:9", "0"},
	} {
		var pods []*corev1.Pod
		for i, text := range strings.Fields(tc.pods) {
			f := strings.Split(text, ":")
			run, phase := f[0], f[1]
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), CreationTimestamp: second(f[2])}, Status: corev1.PodStatus{Phase: corev1.PodPhase(phase)}}
			if len(f) > 3 {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{}, {State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: second(f[3])}}}}
			}
			pod.OwnerReferences = []metav1.OwnerReference{{UID: "no controller"}}
			if run != "" {
				pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{UID: types.UID(run), Controller: new(true)})
			}
			pods = append(pods, pod)
		}
		runs, got := RunsOf(pods), []string{}
		for _, pod := range pods {
			if runs.Former(pod) {
				got = append(got, pod.Name)
			}
		}
		if strings.Join(got, " ") != tc.former {
			t.Errorf("%s: %v are of former runs: want %s", tc.pods, got, tc.former)
		}
	}
}
