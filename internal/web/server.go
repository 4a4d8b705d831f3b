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
	// Hosts are the host names, without ports, that requests may have. The server refuses all other
	// names, so that an attacker's page cannot reach it through a DNS name of the attacker. If
	// Hosts is empty, all names are allowed.
	Hosts []string
	// Gate decides what each user may see; nil shows everything to every user.
	Gate Gate
	// Shadow returns the shadow.View of shadow mode, as JSON. It is nil if the page does not show
	// shadow mode.
	Shadow func(context.Context) ([]byte, error)
}

// Server serves the map. Its methods are safe for concurrent use.
type Server struct {
	Options
	rows    *rows
	streams *streams
	history *history
	// fits and explains limit the number of questions that the server answers at the same time.
	// fits is for questions about hypothetical pods, explains for questions about existing pods and
	// gangs.
	fits, explains slots
	// patience is the maximum time until the body of a request has arrived. answerPatience is the
	// maximum time for the answer.
	patience, answerPatience time.Duration
	mux                      *http.ServeMux
}

// slots limits how many questions of one kind the server answers at a time. The channel has an
// element for each of them.
type slots chan struct{}

// take takes a slot. The caller must call done after the answer. The error means that no slot is
// free.
func (s slots) take() (done func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
		return nil, &failure{http.StatusServiceUnavailable, "other requests are running: try again in a moment"}
	}
}

// quoted returns an untrusted text quoted, in one line and shortened.
func quoted(text string) string {
	data, err := json.Marshal(clip.Text(text, 100))
	if err != nil {
		return "?"
	}
	return string(data)
}

// failure is an error with the HTTP status of the answer.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func missing(text string) error { return &failure{http.StatusNotFound, text} }

// text is an answer that is already encoded as JSON.
type text []byte
