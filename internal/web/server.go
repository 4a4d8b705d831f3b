package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/survey"
)

// Options configure what the server shows, and to which users.
type Options struct {
	// Live is the survey that the server shows.
	Live *survey.Live
	// Hosts are the host names, without ports, that requests may have. The server refuses all
	// others, so that no other page can reach it through a name of its own. Empty allows all.
	Hosts []string
	// Gate decides what each user may see; nil shows everything to everybody.
	Gate Gate
	// Shadow asks shadow mode for its shadow.View, as JSON; nil if it is not shown.
	Shadow func(context.Context) ([]byte, error)
}

// Server is the map. Its methods are safe for concurrent use.
type Server struct {
	Options
	rows    *rows
	streams *streams
	history *history
	// fits and explains are questions that are being answered: about new pods, and about pods and
	// gangs that exist.
	fits, explains slots
	// patience bounds the time in which a body must arrive, answerPatience the time of the answer.
	patience, answerPatience time.Duration
	mux                      *http.ServeMux
}

// slots has an element for each question of a kind that is being answered.
type slots chan struct{}

// take takes a slot; the caller must call done after the answer. The error means that no slot is
// free.
func (s slots) take() (done func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
		return nil, &failure{http.StatusServiceUnavailable, "others are asking just now: try again in a moment"}
	}
}

// quoted shortens an untrusted text to one line.
func quoted(text string) string {
	data, err := json.Marshal(clip.Text(text, 100))
	if err != nil {
		return "?"
	}
	return string(data)
}

// failure is an error with the status that it is answered with.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func missing(text string) error { return &failure{http.StatusNotFound, text} }

// text is an answer that is JSON already.
type text []byte
