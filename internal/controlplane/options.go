package controlplane

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
)

// Options configures Start. The zero value is useful.
type Options struct {
	// Dir is the parent of the temporary directory; "" means os.TempDir. It must be short, because
	// the path of a unix socket is limited to 107 bytes.
	Dir string
	// Keep is a directory for a control plane that outlives its processes. Keys, etcd's data and
	// the API server's address stay there. A later Start with the same directory continues the
	// control plane at the same URL, with the same certificate authorities. After certLife, Start
	// returns an error instead. The directory is created if it does not exist. "" means a temporary
	// directory below Dir that Stop removes.
	Keep string
	// Etcd is the URL of a running etcd ("unix:///path"), as Etcd.URL returns it. If it is "",
	// Start starts an etcd.
	Etcd string
	// Server is the program of a kube-apiserver, of this or another release of Kubernetes. It runs
	// in its own process, which ends with this process. "" runs the linked server in this process.
	Server string
	// Log receives the logs of etcd and the API server; nil discards them. The API server's logger
	// is global to the process, so the Log of the last Start applies. The program in Server does
	// not use Log: it logs to a file in the control plane's directory.
	Log io.Writer
	// ServiceAccounts gives pods the tokens of their service accounts, and refuses pods whose
	// account does not exist. internal/controlplane/controllers creates the accounts.
	ServiceAccounts bool
	// Flags are further kube-apiserver flags ("--v=2"). Feature gates apply to the whole process,
	// so they cannot be set here.
	Flags []string
	// Around, if it is not nil, wraps the whole handler of the server that is linked in.
	Around func(http.Handler) http.Handler
}

// ControlPlane is a running kube-apiserver, with its etcd unless the etcd is another process.
type ControlPlane struct {
	dir   string
	kept  bool // Stop does not remove dir
	pki   *pki
	etcd  *Etcd // nil if etcd is another process
	api   *apiServer
	admin *rest.Config

	stop    sync.Once
	stopErr error
}

// directory creates the control plane's directory and returns its path.
func (o *Options) directory() (string, error) {
	if o.Keep == "" {
		dir, err := os.MkdirTemp(o.Dir, "berth-cp-")
		if err != nil {
			return "", fmt.Errorf("temporary directory: %w", err)
		}
		return dir, nil
	}
	if err := os.MkdirAll(o.Keep, 0o700); err != nil {
		return "", fmt.Errorf("directory to be kept: %w", err)
	}
	return filepath.Abs(o.Keep)
}

// RESTConfig returns the configuration of an administrator's client (group system:masters), with no
// client-side rate limit. The caller owns the copy.
func (cp *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// Addr returns host and port of the API server.
func (cp *ControlPlane) Addr() string { return cp.api.addr }
