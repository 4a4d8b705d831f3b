package web

import "net/http"

// Gate identifies the viewer of a request. If the error is a failure, the server answers with its
// status.
type Gate interface {
	Admit(r *http.Request) (Viewer, error)
}

// Viewer is the user of a request, with the user's access.
type Viewer interface {
	// Sees reports whether pods of a namespace are shown.
	Sees(namespace string) bool
	// Name is the viewer's name on the page; "" if nobody was authenticated.
	Name() string
}

// open lets every user see everything. It is for a server that runs on the user's own machine and
// reads the cluster with the user's own rights.
type open struct{}

func (open) Admit(*http.Request) (Viewer, error) { return everything{}, nil }

type everything struct{}

func (everything) Sees(string) bool { return true }
func (everything) Name() string     { return "" }
