package hollow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/internal/child"
)

// Main is the main function of a node's process. It runs the node in dir until the process gets a
// signal to end or stdin is closed, and returns the exit code. Launch keeps stdin open as long as
// the parent process lives.
func Main(dir Dir, stdin io.Reader, stderr io.Writer) int {
	ctx, cancel := child.WithParent(context.Background(), stdin)
	defer cancel()
	if err := Run(ctx, dir); err != nil {
		fmt.Fprintln(stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// Process is a node that runs in its own process.
type Process struct {
	*child.Process
	Dir Dir
}

// Launch writes spec and kubeconfig into dir and starts the node. Launch appends the directory to
// the command line argv. The program of argv must pass that directory to Main. The node ends when
// the calling process ends.
func Launch(dir Dir, spec *Spec, kubeconfig []byte, argv []string) (*Process, error) {
	if err := dir.Write(spec, kubeconfig); err != nil {
		return nil, err
	}
	p, err := child.Start(child.Spec{Name: spec.Name, Argv: append(slices.Clone(argv), string(dir)), Log: dir.Log()})
	if err != nil {
		return nil, err
	}
	return &Process{p, dir}, nil
}

const readyPoll = 50 * time.Millisecond

// WaitReady waits until the Node object is Ready and has every resource of the node's device
// plugins. If the process ends first, the error has the reason from its log.
func (p *Process) WaitReady(ctx context.Context, client clientset.Interface) error {
	spec, err := p.Dir.ReadSpec()
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		if p.Ended() != nil {
			return false, p.ended()
		}
		n, err := client.CoreV1().Nodes().Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			last = err
			return false, nil
		}
		if err != nil {
			return false, err
		}
		last = notReady(n, spec)
		return last == nil, nil
	})
	if p.Ended() != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("node %s: not ready: %w", p.Name, errors.Join(err, last))
	}
	return nil
}

// ended returns the reason why the process has ended: the error that Main has printed, or the end
// of the log if Main has printed no error.
func (p *Process) ended() error {
	var last []byte
	for line := range bytes.Lines(p.LogTail(4000)) { // the kubelet may log more after Main's line
		if why, ok := bytes.CutPrefix(line, []byte("node "+p.Name+": ")); ok {
			last = bytes.TrimSpace(why)
		}
	}
	if last != nil {
		return fmt.Errorf("node %s does not start: %s", p.Name, last)
	}
	return p.Ended()
}

// notReady returns the reason why the node cannot run pods yet, or nil.
func notReady(n *v1.Node, spec *Spec) error {
	for _, plugin := range spec.Plugins {
		if _, ok := n.Status.Allocatable[v1.ResourceName(plugin.Resource)]; !ok {
			return fmt.Errorf("resource %s is not offered yet", plugin.Resource)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type != v1.NodeReady {
			continue
		}
		if c.Status == v1.ConditionTrue {
			return nil
		}
		return errors.New(c.Message)
	}
	return errors.New("no Ready condition")
}
