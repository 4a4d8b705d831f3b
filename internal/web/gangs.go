package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
)

// gangs lists the gangs in namespaces that the viewer may see.
func (s *Server) gangs(r *http.Request, v Viewer) (any, error) {
	done, err := s.explains.take()
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := s.Live.Gangs(r.Context())
	if err != nil {
		return nil, err
	}
	seen := slices.DeleteFunc(all.Gangs, func(g survey.Gang) bool { return !v.Sees(g.Namespace) })
	out := map[string]any{"gangs": seen}
	if len(seen) == len(all.Gangs) || len(all.Gangs) == 0 { // notes may name pods of any namespace
		out["notes"] = all.Notes
	}
	return out, nil
}

func (s *Server) gang(r *http.Request, v Viewer) (any, error) {
	namespace, source, name := r.PathValue("namespace"), r.PathValue("source"), r.PathValue("name")
	none := missing("there is no gang " + namespace + "/" + name)
	if !v.Sees(namespace) {
		return nil, none
	}
	done, err := s.explains.take()
	if err != nil {
		return nil, err
	}
	defer done()
	g, err := s.Live.GangNamed(r.Context(), namespace, source, name)
	var e *query.ExplainedGang
	if err == nil {
		e, err = query.ExplainGang(r.Context(), s.Live, g, nil)
	}
	switch {
	case r.Context().Err() != nil:
		return nil, &failure{http.StatusServiceUnavailable, fmt.Sprintf("no answer about gang %s/%s within %v", namespace, name, s.answerPatience)}
	case err != nil:
		return nil, none
	}
	if e.Lacking != nil {
		e.Lacking.Nodes = shortened(e.Lacking.Nodes, v)
	}
	return e, nil
}
