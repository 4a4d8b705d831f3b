package hollow

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// setVerbosity sends klog to standard error at the level.
func setVerbosity(level int) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Set("v", strconv.Itoa(level)); err != nil {
		panic(err) // klog has had the flag since v1
	}
}

// Main is the whole main function of a node's process: it runs the node in dir until a signal comes or the
// parent goes away, and returns the exit code.
func Main(dir Dir, stdin io.Reader, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	go func() {
		io.Copy(io.Discard, stdin) // ends with the parent, however that ends
		cancel()
	}()
	if err := Run(ctx, dir); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// Process is a node that runs in a process of its own.
type Process struct {
	Name string
	Dir  Dir

	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{}
	err   error // set before done is closed
}

// Launch writes spec and kubeconfig into dir and starts the node: argv, with the directory appended,
// must be a program that calls Main with it. The node dies with the calling process.
func Launch(dir Dir, spec *Spec, kubeconfig []byte, argv []string) (*Process, error) {
	if err := dir.Write(spec, kubeconfig); err != nil {
		return nil, err
	}
	p := &Process{Name: spec.Name, Dir: dir}
	return p, p.start(argv)
}

func (p *Process) start(argv []string) error {
	log, err := os.OpenFile(p.Dir.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("node %s: %w", p.Name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(argv[0], append(argv[1:len(argv):len(argv)], string(p.Dir))...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A group of its own: an interrupt typed at the terminal is for the parent, which stops the nodes in its order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("node %s: %w", p.Name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("node %s: %w", p.Name, err)
	}
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return nil
}

// PID returns the node's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the node's process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// stopLimit is how long a node may take to end before it is killed.
const stopLimit = 10 * time.Second

// Stop ends the process and waits for it. The directory stays: it is the caller's.
func (p *Process) Stop() error {
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.cmd.Process.Kill()
		<-p.done
	}
	if p.err != nil {
		return fmt.Errorf("node %s: %w", p.Name, p.err)
	}
	return nil
}

// Kill ends the process as a power failure would.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
	p.stdin.Close()
}

// readyPoll is how often the Node object is looked at while waiting for it.
const readyPoll = 50 * time.Millisecond

// WaitReady waits until the Node object is Ready and offers every resource of the node's device plugins. When the
// process ends instead, the error holds the end of its log.
func (p *Process) WaitReady(ctx context.Context, client clientset.Interface) error {
	spec, err := p.Dir.ReadSpec()
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("ended: %v: %s", p.err, p.logTail())
		default:
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
	if err != nil {
		return fmt.Errorf("node %s: not ready: %w", p.Name, errors.Join(err, last))
	}
	return nil
}

// notReady says why the node cannot take pods yet, or nil.
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

// logTail returns the last lines of the node's log.
func (p *Process) logTail() string {
	const limit = 2000
	data, err := os.ReadFile(p.Dir.Log())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(data[max(0, len(data)-limit):]))
}
