package gang

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
)

// job is what a trial is made of: copies, so that no lock is held while it goes on.
type job struct {
	gang  plan.Gang
	pods  []*corev1.Pod
	tasks []string
	stirs uint64
	bound int
	// seated are the members that have nodes, where anybody asks anything about another's place.
	seated []*corev1.Pod
	// single: the gang has its minimum, and the pod comes after it.
	single bool
	// claim is what has to be there before anything is planned; nil for nothing.
	claim *gangs.Claim
	// occupant is a pod on a node as admission sees it.
	occupant func(*corev1.Pod) gangs.Occupant
}

// result is what came of a trial.
type result struct {
	plan.Plan
	trial *trial
	// short says which of the resources are missing that the group names; "" where none is.
	short string
	// wrong is why it could not be made at all.
	wrong *fwk.Status
}

// named returns the pods as the scheduling queue takes them.
func (j *job) named() map[string]*corev1.Pod {
	out := make(map[string]*corev1.Pod, len(j.pods))
	for _, pod := range j.pods {
		out[pod.Namespace+"/"+pod.Name] = pod
	}
	return out
}
