package web

import "net/http"

// Gate authenticates the viewer of a request. If the error is a failure, the server answers with
// the failure's HTTP status.
type Gate interface {
	Admit(r *http.Request) (Viewer, error)
}

// Viewer is the user who sent a request.
type Viewer interface {
	// Sees reports whether the viewer may see the pods of a namespace.
	Sees(namespace string) bool
	// Name returns the viewer's name for the page. It is "" if the server does not authenticate.
	Name() string
}

// open lets every user see everything. It is for a server that runs on the user's own machine and
// reads the cluster with the user's own rights.
type open struct{}

func (open) Admit(*http.Request) (Viewer, error) { return everything{}, nil }

type everything struct{}

func (everything) Sees(string) bool { return true }
func (everything) Name() string     { return "" }
