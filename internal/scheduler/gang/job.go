package gang

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
)

// job is what a trial is made of: copies, so that no lock is held while it goes on.
type job struct {
	gangs.Asked
	gang  gangfit.Question
	stirs uint64
	// single: the gang has its minimum, and the pod comes after it.
	single bool
	// others knows about pods that are not of the gang. patient reports if nobody is evicted yet,
	// because the reports of nodes may show room.
	others  others
	patient func(reports bool) bool
}

// others knows about pods on nodes.
type others interface {
	// Occupant is a pod as others see it that want its place, without what it asks for.
	Occupant(pod *corev1.Pod) gangfit.Occupant
	// budgets are the PodDisruptionBudgets.
	budgets() []*policyv1.PodDisruptionBudget
}

// result is what came of a trial.
type result struct {
	*gangfit.Verdict
	trial *trial
	// wrong is why it could not be made at all.
	wrong *fwk.Status
}

// named returns the pods as the scheduling queue takes them.
func (j *job) named() map[string]*corev1.Pod {
	out := make(map[string]*corev1.Pod, len(j.Pods))
	for _, pod := range j.Pods {
		out[pod.Namespace+"/"+pod.Name] = pod
	}
	return out
}
