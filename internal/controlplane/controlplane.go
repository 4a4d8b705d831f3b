package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
)

// Options tunes Start. The zero value is useful.
type Options struct {
	// Dir is where the temporary directory is made; "" means os.TempDir. Keep it short: the path of
	// a unix socket is limited to 107 bytes.
	Dir string
	// Keep is a directory for a control plane that outlives its processes: key material, etcd's
	// data and the API server's address stay there however it ends, and a later Start with the same
	// directory continues it, at the same URL and with the same authorities. It is made if need be;
	// "" means a temporary directory below Dir that Stop removes.
	Keep string
	// Etcd is the URL of an etcd that runs elsewhere ("unix:///path"), as Etcd.URL returns it; ""
	// starts one.
	Etcd string
	// Server is the program of a kube-apiserver, of this release of Kubernetes or another; it runs
	// as a process that ends with this one. "" runs the server that is linked in, in this process.
	Server string
	// Log receives what etcd and the API server have to say; nil discards it. The logger of the API
	// server is global to the process: the last Start decides.
	Log io.Writer
	// ServiceAccounts gives pods the tokens of their service accounts and refuses pods whose
	// account does not exist. internal/controlplane/controllers makes the accounts.
	ServiceAccounts bool
	// Flags are further kube-apiserver flags ("--v=2"). Feature gates are shared by everything in
	// the process and cannot be set here.
	Flags []string
}

// ControlPlane is a running kube-apiserver, and its etcd unless that runs elsewhere.
type ControlPlane struct {
	dir   string
	kept  bool // dir outlives the control plane
	pki   *pki
	etcd  *Etcd // nil: runs elsewhere
	api   *apiServer
	admin *rest.Config

	stop    sync.Once
	stopErr error
}

// Start starts a control plane and returns when it is ready to serve: bootstrap RBAC rules and the
// default namespace are there. ctx limits the start alone; the control plane runs until Stop.
// Nothing is left behind when Start fails, except in Options.Keep.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	cp := &ControlPlane{kept: opts.Keep != ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, cp.Stop())
		}
	}()
	setLog(opts.Log)
	if cp.dir, err = opts.directory(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if cp.pki, err = openPKI(cp.dir, cp.kept); err != nil {
		return nil, fmt.Errorf("control plane: certificates: %w", err)
	}
	storage := opts.Etcd
	if storage == "" {
		if cp.etcd, err = StartEtcd(ctx, cp.dir, opts.Log); err != nil {
			return nil, fmt.Errorf("control plane: etcd: %w", err)
		}
		storage = cp.etcd.URL()
	}
	if cp.api, err = opts.startServer(ctx, cp, storage); err != nil {
		return nil, fmt.Errorf("control plane: kube-apiserver: %w", err)
	}
	if cp.admin, err = cp.UserConfig(Admin.Name, Admin.Groups); err != nil {
		return nil, fmt.Errorf("control plane: administrator's credentials: %w", err)
	}
	if err = cp.api.waitReady(ctx, cp.admin); err != nil {
		return nil, fmt.Errorf("control plane: not ready: %w", err)
	}
	return cp, nil
}

func (o *Options) startServer(ctx context.Context, cp *ControlPlane, storage string) (*apiServer, error) {
	if o.Server != "" {
		return startServerProcess(ctx, cp, storage, o)
	}
	return startAPIServer(ctx, cp, storage, o)
}

// directory makes the directory.
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

// errNotHere is what Break and Mend return for a server in a process of its own.
var errNotHere = errors.New("the API server runs in a process of its own: want the one that is linked in")

// Break makes the API server unreachable, as if its process had died: it refuses connections, and
// the ones that there are end. Its own controllers and etcd go on. It is no error that it was
// broken.
func (cp *ControlPlane) Break() error {
	if cp.api.listener == nil {
		return errNotHere
	}
	cp.api.listener.leave()
	return nil
}

// Mend undoes Break: the API server listens again where it did.
func (cp *ControlPlane) Mend(ctx context.Context) error {
	if cp.api.listener == nil {
		return errNotHere
	}
	return cp.api.listener.comeBack(ctx)
}

// Stop shuts the control plane down, waits for it and removes its directory unless somebody wants
// to keep it. Further calls return the first result.
func (cp *ControlPlane) Stop() error {
	cp.stop.Do(func() {
		var errs []error
		if cp.api != nil {
			errs = append(errs, cp.api.stop())
		}
		if cp.etcd != nil {
			cp.etcd.Stop()
		}
		if cp.dir != "" && !cp.kept {
			errs = append(errs, os.RemoveAll(cp.dir))
		}
		cp.stopErr = errors.Join(errs...)
	})
	return cp.stopErr
}
