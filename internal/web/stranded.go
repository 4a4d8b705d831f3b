package web

import (
	"net/http"
	"slices"

	"github.com/berth-dev/berth/internal/survey"
)

// maxStranded is how many NUMA nodes are listed of each resource.
const maxStranded = 20

// strandedSum is what is stranded of a resource, and why.
type strandedSum struct {
	Resource string `json:"resource"`
	Stranded uint64 `json:"stranded"`
	// Reasons are all there are, each once.
	Reasons []strandedReason `json:"reasons"`
	// Count is of all NUMA nodes; Most are those with the most of it.
	Count int               `json:"count"`
	Most  []survey.Stranded `json:"most"`
}

// strandedReason is how much is stranded for one reason.
type strandedReason struct {
	Reason   string `json:"reason"`
	Stranded uint64 `json:"stranded"`
}

func (s *strandedSum) add(one *survey.Stranded) {
	s.Stranded, s.Count = s.Stranded+one.Stranded, s.Count+1
	if len(s.Most) < maxStranded {
		s.Most = append(s.Most, *one)
	}
	at := slices.IndexFunc(s.Reasons, func(r strandedReason) bool { return r.Reason == one.Reason })
	if at < 0 {
		at = len(s.Reasons)
		s.Reasons = append(s.Reasons, strandedReason{Reason: one.Reason})
	}
	s.Reasons[at].Stranded += one.Stranded
}

// stranded says of each resource what is free and of little use.
func (s *Server) stranded(*http.Request, Viewer) (any, error) {
	sums := []*strandedSum{}
	all := s.Live.Stranded() // by resource, most first
	for i := range all {
		if len(sums) == 0 || sums[len(sums)-1].Resource != all[i].Resource {
			sums = append(sums, &strandedSum{Resource: all[i].Resource})
		}
		sums[len(sums)-1].add(&all[i])
	}
	return map[string]any{"resources": sums}, nil
}
