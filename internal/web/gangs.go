package web

import (
	"net/http"
	"slices"

	"github.com/berth-dev/berth/internal/survey"
)

// gangs lists those of the namespaces that the viewer sees.
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
	if len(seen) == len(all.Gangs) || len(all.Gangs) == 0 { // notes name pods of any namespace
		out["notes"] = all.Notes
	}
	return out, nil
}

// gang explains one.
func (s *Server) gang(r *http.Request, v Viewer) (any, error) {
	namespace, source, name := r.PathValue("namespace"), r.PathValue("source"), r.PathValue("name")
	none := missing("there is no gang " + namespace + "/" + name + "")
	if !v.Sees(namespace) {
		return nil, none
	}
	done, err := s.explains.take()
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := s.Live.ExplainGang(r.Context(), namespace, source, name)
	if err != nil {
		return nil, none
	}
	if e.Lacking != nil {
		e.Lacking.Nodes = shortened(e.Lacking.Nodes, v)
	}
	return e, nil
}
