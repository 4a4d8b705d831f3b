package web

import (
	"net/http"

	"github.com/berth-dev/berth/internal/survey"
)

// maxStranded is how many NUMA nodes are listed of each resource.
const maxStranded = 20

// strandedSum is what is stranded of a resource, and why.
type strandedSum struct {
	survey.StrandedSum
	// Most are the NUMA nodes with the most of it, of Count.
	Most []survey.Stranded `json:"most"`
}

// stranded says for each resource what is free and of little use.
func (s *Server) stranded(*http.Request, Viewer) (any, error) {
	sums := []*strandedSum{}
	all := s.Live.Stranded() // by resource, most first
	for _, sum := range survey.SumStranded(all) {
		one := &strandedSum{StrandedSum: sum}
		for i := range all {
			if all[i].Resource == sum.Resource && len(one.Most) < maxStranded {
				one.Most = append(one.Most, all[i])
			}
		}
		sums = append(sums, one)
	}
	return map[string]any{"resources": sums}, nil
}
