package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/berth-dev/berth/internal/shadow"
)

// shadow returns the findings of shadow mode, without the pods that the viewer is not allowed to
// see.
func (s *Server) shadow(r *http.Request, v Viewer) (any, error) {
	if s.Shadow == nil {
		return nil, missing("shadow mode is not shown here: want berth serve --shadow service, or --shadow with the address of shadow mode")
	}
	data, err := s.Shadow(r.Context())
	if err != nil {
		return nil, &failure{http.StatusBadGateway, err.Error()}
	}
	var view shadow.View
	if err := json.Unmarshal(data, &view); err != nil {
		return nil, &failure{http.StatusBadGateway, fmt.Sprintf("the answer of shadow mode cannot be read: %v", err)}
	}
	view.Pods = slices.DeleteFunc(view.Pods, func(p shadow.Record) bool { return !v.Sees(p.Namespace) })
	if c := view.Claims; c != nil {
		c.Misaligned = slices.DeleteFunc(c.Misaligned, func(p shadow.Claimed) bool { return !v.Sees(p.Namespace) })
	}
	return map[string]any{"view": view, "reasons": shadow.Reasons}, nil
}
