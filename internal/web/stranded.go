package web

import (
	"cmp"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// maxStranded is the maximum number of NUMA nodes that are listed for each resource.
const maxStranded = 20

// strandedSum is the stranded amount of a resource, with the reasons.
type strandedSum struct {
	survey.StrandedSum
	// Most has the NUMA nodes with the largest amounts. Count is the number of all NUMA nodes with
	// stranded amounts.
	Most []survey.Stranded `json:"most"`
	// Waiting is the oldest pod that waits for room and requests the resource. It is nil if there
	// is none.
	Waiting *found `json:"waiting,omitempty"`
}

// stranded returns the stranded amount of each resource. Stranded amounts are free, but hard to
// use.
func (s *Server) stranded(_ *http.Request, v Viewer) (any, error) {
	sums := []*strandedSum{}
	waiting := slices.DeleteFunc(s.waiting(v), func(p *corev1.Pod) bool { return !query.WaitsForRoom(p) })
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	all := s.Live.Stranded() // by resource, most first
	for _, sum := range survey.SumStranded(all) {
		one := &strandedSum{StrandedSum: sum}
		for i := range all {
			if all[i].Resource == sum.Resource && len(one.Most) < maxStranded {
				one.Most = append(one.Most, all[i])
			}
		}
		if at := slices.IndexFunc(waiting, func(p *corev1.Pod) bool { return wire.ReadAmounts(p)[sum.Resource] > 0 }); at >= 0 {
			pod := foundPod(waiting[at])
			one.Waiting = &pod
		}
		sums = append(sums, one)
	}
	return map[string]any{"resources": sums}, nil
}
