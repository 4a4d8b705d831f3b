// Package standalone runs a control plane in its own process, which can be killed and started
// again.
package standalone

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/controlplane"
)

// Service is a control plane that Serve runs in this process.
type Service struct {
	controlplane.Options
	// Manifests are applied before users get access.
	Manifests [][]byte
	// Users are the users that get kubeconfigs, by the name of the file in Out.
	Users map[string]controlplane.User
	// Out receives the kubeconfigs, and last the file ReadyFile.
	Out string
}

// ReadyFile is created when a Service is ready and all other files exist.
const ReadyFile = "ready"

// Serve runs the control plane until ctx ends. If it continues an earlier one (Options.Keep),
// manifests and users already exist.
func (s *Service) Serve(ctx context.Context) (err error) {
	cp, err := controlplane.Start(ctx, s.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	ready := filepath.Join(s.Out, ReadyFile)
	if _, err := os.Stat(ready); errors.Is(err, fs.ErrNotExist) {
		if err := s.furnish(ctx, cp); err != nil {
			return err
		}
		if err := os.WriteFile(ready, nil, 0o600); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (s *Service) furnish(ctx context.Context, cp *controlplane.ControlPlane) error {
	if err := cp.Apply(ctx, s.Manifests...); err != nil {
		return err
	}
	for file, u := range s.Users {
		if err := cp.WriteKubeconfig(filepath.Join(s.Out, file), u); err != nil {
			return err
		}
	}
	return nil
}
