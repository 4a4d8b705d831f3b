package web

import (
	"net/http"
	"slices"

	"github.com/berth-dev/berth/internal/survey/query"
)

// roomPage has a plan that makes room, with pictures of the nodes that the plan changes.
type roomPage struct {
	*query.Room
	Before []picture `json:"before,omitempty"`
	After  []picture `json:"after,omitempty"`
}

// room returns a plan: the pods that would have to move to make room for the pods of a manifest. It
// moves no pods.
func (s *Server) room(r *http.Request, v Viewer) (any, error) {
	pods, done, err := s.question(r)
	if err != nil {
		return nil, err
	}
	defer done()
	room, err := query.MakeRoom(r.Context(), s.Live, pods.Templates, query.RoomOptions{Draw: true})
	if err != nil {
		return nil, s.unanswered(err)
	}
	room.Notes = slices.Concat(pods.Notes, room.Notes)
	out := roomPage{Room: room}
	for _, p := range room.Before {
		out.Before = append(out.Before, pictured(&p, v))
	}
	for _, p := range room.After {
		out.After = append(out.After, pictured(&p, v))
	}
	if _, all := v.(everything); !all {
		hideMoves(room, v)
	}
	return out, nil
}

// hideMoves removes the names of pods in namespaces that the viewer is not allowed to see.
func hideMoves(room *query.Room, v Viewer) {
	room.Staying = nil // the reasons name PodDisruptionBudgets
	for i := range room.Moves {
		if m := &room.Moves[i]; !v.Sees(m.Namespace) {
			m.Namespace, m.Name, m.UID, m.Controller = "", hidden, "", ""
		}
	}
}
