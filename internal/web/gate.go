package web

import "net/http"

// Gate is who asks. An error that is a failure is answered with its status.
type Gate interface {
	Admit(r *http.Request) (Viewer, error)
}

// Viewer is who asks, and what that is shown of.
type Viewer interface {
	// Sees says whether pods of a namespace are shown.
	Sees(namespace string) bool
	// Name is what the page calls the viewer; "" if nobody asked.
	Name() string
}

// open lets everybody see everything: the server runs on the user's own machine, and reads with the
// user's own rights.
type open struct{}

func (open) Admit(*http.Request) (Viewer, error) { return everything{}, nil }

type everything struct{}

func (everything) Sees(string) bool { return true }
func (everything) Name() string     { return "" }
