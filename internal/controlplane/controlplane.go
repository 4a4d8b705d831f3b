package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/client-go/rest"
)

// Options tunes Start. The zero value is useful.
type Options struct {
	// Dir is where the temporary directory is made; "" means os.TempDir. Keep it short: the path of a
	// unix socket is limited to 107 bytes.
	Dir string
	// Log receives what etcd and the API server have to say; nil discards it. The logger of the API
	// server is global to the process: the last Start decides.
	Log io.Writer
	// Flags are further kube-apiserver flags ("--v=2"). Feature gates are shared by everything in the
	// process and cannot be set here.
	Flags []string
}

// ControlPlane is a running etcd and kube-apiserver.
type ControlPlane struct {
	dir   string
	pki   *pki
	etcd  *etcdServer
	api   *apiServer
	admin *rest.Config

	stop    sync.Once
	stopErr error
}

// Start starts a control plane and returns when it is ready to serve: bootstrap RBAC rules and the
// default namespace are there. ctx limits the start alone; the control plane runs until Stop.
// Nothing is left behind when Start fails.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	cp := &ControlPlane{}
	defer func() {
		if err != nil {
			err = errors.Join(err, cp.Stop())
		}
	}()
	setLog(opts.Log)
	if cp.dir, err = os.MkdirTemp(opts.Dir, "berth-cp-"); err != nil {
		return nil, fmt.Errorf("control plane: temporary directory: %w", err)
	}
	if cp.pki, err = newPKI(cp.dir); err != nil {
		return nil, fmt.Errorf("control plane: certificates: %w", err)
	}
	if cp.etcd, err = startEtcd(ctx, cp.dir, opts.Log); err != nil {
		return nil, fmt.Errorf("control plane: etcd: %w", err)
	}
	if cp.api, err = startAPIServer(cp, opts.Flags); err != nil {
		return nil, fmt.Errorf("control plane: kube-apiserver: %w", err)
	}
	if cp.admin, err = cp.config("berth-admin", []string{"system:masters"}); err != nil {
		return nil, fmt.Errorf("control plane: administrator's credentials: %w", err)
	}
	if err = cp.api.waitReady(ctx, cp.admin); err != nil {
		return nil, fmt.Errorf("control plane: not ready: %w", err)
	}
	return cp, nil
}

// RESTConfig returns the configuration of an administrator's client (group system:masters), with no
// client-side rate limit. The caller owns the copy.
func (cp *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// Addr returns host and port of the API server.
func (cp *ControlPlane) Addr() string { return cp.api.addr }

// Stop shuts the control plane down, waits for it and removes its directory. Further calls return the
// first result.
func (cp *ControlPlane) Stop() error {
	cp.stop.Do(func() {
		var errs []error
		if cp.api != nil {
			errs = append(errs, cp.api.stop())
		}
		if cp.etcd != nil {
			cp.etcd.stop()
		}
		if cp.dir != "" {
			errs = append(errs, os.RemoveAll(cp.dir))
		}
		cp.stopErr = errors.Join(errs...)
	})
	return cp.stopErr
}
