package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Start starts a control plane, and returns when it is ready and has the bootstrap RBAC rules and
// the default namespace. ctx applies to the start only. The control plane runs until Stop. If Start
// fails, it leaves nothing behind, except in Options.Keep.
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

// errNotHere is the error of Break and Mend for a server in its own process.
var errNotHere = errors.New("the API server runs in its own process: want an API server that runs in this process")

// Break makes the API server unreachable, as if its process had died: it refuses new connections
// and ends existing ones. etcd, and the controllers inside the API server, continue. Breaking it
// twice is not an error.
func (cp *ControlPlane) Break() error {
	if cp.api.listener == nil {
		return errNotHere
	}
	cp.api.listener.leave()
	return nil
}

// Mend reverts Break: the API server listens again on the same port.
func (cp *ControlPlane) Mend(ctx context.Context) error {
	if cp.api.listener == nil {
		return errNotHere
	}
	return cp.api.listener.comeBack(ctx)
}

// Stop shuts the control plane down, waits until it has ended, and removes its directory unless
// Options.Keep is set. Further calls return the first result.
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
