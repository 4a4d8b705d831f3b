package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/scheduler/witness"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/survey/source"
)

// ShadowRole runs shadow mode in its own process, with berth-scheduler's arguments.
func ShadowRole(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 || args[0] != witness.Verb {
		return 0, false
	}
	ctx, cancel := child.WithParent(context.Background(), stdin)
	defer cancel()
	cmd := witness.NewCommand()
	cmd.SetArgs(args[1:])
	cmd.SetOut(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, err)
		return 1, true
	}
	return 0, true
}

// Shadow asks a process in shadow mode.
type Shadow struct{ source.Shadow }

// ShadowAt returns access to shadow mode on the port.
func ShadowAt(port int) Shadow {
	return Shadow{source.Shadow{URL: fmt.Sprint("http://127.0.0.1:", port)}}
}

// StartShadow runs shadow mode as a process of the program in s.Argv, and returns when it has read
// the cluster.
func StartShadow(ctx context.Context, s child.Spec, kubeconfig string, flags ...string) (*child.Process, Shadow, error) {
	port, err := child.FreePort()
	if err != nil {
		return nil, Shadow{}, err
	}
	s.Name = "shadow"
	s.Argv = slices.Concat(s.Argv, []string{witness.Verb, "--kubeconfig=" + kubeconfig, fmt.Sprint("--listen=127.0.0.1:", port)}, flags)
	p, err := child.Start(s)
	if err != nil {
		return nil, Shadow{}, err
	}
	at := ShadowAt(port)
	if err := at.Ready(ctx, p); err != nil {
		return nil, at, errors.Join(err, p.Stop())
	}
	return p, at, nil
}

// Ready waits until shadow mode has read the cluster, or the process has ended.
func (s Shadow) Ready(ctx context.Context, p *child.Process) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := s.Ask(ctx, "readyz")
		return err == nil, p.Ended()
	})
	if err != nil {
		return fmt.Errorf("shadow mode: %w: %s", err, p.LogTail(1000))
	}
	return nil
}

// View returns its current findings.
func (s Shadow) View(ctx context.Context) (v shadow.View, err error) {
	data, err := s.Ask(ctx, "shadow")
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return v, err
}

// Settled returns its findings when no pod waits for an answer any more, or when ctx ends.
func (s Shadow) Settled(ctx context.Context) (v shadow.View, err error) {
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		now, err := s.View(ctx)
		if err != nil {
			return false, nil // asked again until the limit
		}
		v = now
		return v.Open == 0, nil
	})
	if wait.Interrupted(err) && v.Total.Pods > 0 {
		return v, nil
	}
	return v, err
}
