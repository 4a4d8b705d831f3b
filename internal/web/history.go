package web

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/survey"
)

// The history has one point per minute, for twelve hours.
const (
	historyEvery  = time.Minute
	historyPoints = 12 * 60
	maxResources  = 32
)

// point is the state of the whole cluster at one moment.
type point struct {
	At int64 `json:"at"` // seconds since 1970
	// Free and Total are the CPUs, bytes and devices that pods can get exclusively, by resource.
	Free  map[string]uint64 `json:"free"`
	Total map[string]uint64 `json:"total"`
	// Whole is the number of NUMA nodes whose CPUs are all free, on nodes that are neither cordoned
	// nor in trouble.
	Whole    int `json:"whole"`
	Nodes    int `json:"nodes"`
	Troubled int `json:"troubled"`
	Pods     int `json:"pods"`
	InFlight int `json:"inFlight"`
	Pending  int `json:"pending"`
}

// history has the points of the last twelve hours, the oldest first.
type history struct {
	mu     sync.Mutex
	points []point

	adding sync.Mutex
	latest point
	added  time.Time // the time when latest was computed
}

func (h *history) add(p point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) == historyPoints {
		h.points = append(h.points[:0], h.points[1:]...)
	}
	h.points = append(h.points, p)
}

func (h *history) all() []point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]point{}, h.points...)
}

// pointOf adds up the nodes of a cluster. It ignores the free resources of nodes in trouble.
func pointOf(at time.Time, all []*survey.Row, pending int) point {
	p := point{At: at.Unix(), Free: map[string]uint64{}, Total: map[string]uint64{}, Nodes: len(all), Pending: pending}
	for _, row := range all {
		p.Pods += row.Pods
		p.InFlight += row.InFlight
		if row.Trouble != nil {
			p.Troubled++
		}
		for i := range row.NUMANodes {
			p.add(&row.NUMANodes[i], row)
		}
	}
	return p
}

func (p *point) add(n *survey.NUMANode, row *survey.Row) {
	if c := n.CPUs; c != nil && c.Total > 0 && c.Free == c.Total && row.Open() {
		p.Whole++
	}
	for _, a := range n.Amounts() {
		if _, known := p.Total[a.Resource]; !known && len(p.Total) >= maxResources {
			continue
		}
		p.Total[a.Resource] += a.Total
		if row.Trouble == nil {
			p.Free[a.Resource] += a.Free
		}
	}
}

// Run adds points to the history until ctx ends.
func (s *Server) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.Live.Ready():
	}
	if !s.Live.Moves() {
		var names []string
		for _, row := range s.Live.Rows() {
			names = append(names, row.Name)
		}
		s.Changed(names, nil)
	}
	debug.FreeOSMemory() // reading a large cluster leaves much garbage
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		if len(s.Live.Lost()) == 0 { // otherwise the present state is unknown
			s.history.add(s.present())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// present returns the point for the present time. It computes a new point at most once a second.
func (s *Server) present() point {
	h := s.history
	h.adding.Lock()
	defer h.adding.Unlock()
	if time.Since(h.added) > time.Second {
		h.latest, h.added = pointOf(s.Live.Now(), s.Live.Rows(), len(s.waiting(everything{}))), time.Now()
	}
	return h.latest
}

func (s *Server) past(*http.Request, Viewer) (any, error) {
	return map[string]any{"points": append(s.history.all(), s.present())}, nil
}
