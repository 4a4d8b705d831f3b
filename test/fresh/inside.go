package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// verdict is the last line.
type verdict struct {
	Commands    int     `json:"commands"`
	Differ      int     `json:"differ"`
	Failed      int     `json:"failed"`
	PlaySeconds float64 `json:"playSeconds"`
	DemoSeconds float64 `json:"demoSeconds"`
}

const (
	repository = "/root/berth"
	// playLimit and demoLimit include compiling everything.
	playLimit, demoLimit = 40 * time.Minute, 40 * time.Minute
	// stepLimit is how long a command may take. answerLimit is how long a question to berth is
	// repeated while its answer differs from the document. endLimit is how long the end after
	// Ctrl-C may take.
	stepLimit, answerLimit, endLimit = 2 * time.Minute, 30 * time.Second, time.Minute
	askAgain                         = 500 * time.Millisecond
)

// ready is the last line that make play prints before it waits.
const ready = "Ctrl-C here ends everything."

// inside is the first process of the namespaces; the result is its exit code.
func inside(text string, stdout, stderr io.Writer) int {
	var p place
	err := json.Unmarshal([]byte(text), &p)
	if err != nil {
		fmt.Fprintln(stderr, "fresh:", err)
		return 3
	}
	log, err := os.Create(p.Log)
	if err == nil {
		defer log.Close()
		err = p.enter()
	}
	if err != nil {
		fmt.Fprintln(stderr, "fresh:", err)
		return 3
	}
	n := &newcomer{place: &p, out: stdout, log: log}
	n.env = []string{
		"HOME=/root", "USER=root", "TERM=dumb", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + filepath.Join(p.Go.GOROOT, "bin"),
		"GOMODCACHE=" + p.Go.GOMODCACHE, "GOCACHE=" + p.Go.GOCACHE, "GOPROXY=off", "GOTOOLCHAIN=local",
	}
	n.follow(context.Background())
	if err := json.NewEncoder(stdout).Encode(&n.verdict); err != nil || n.verdict.Differ+n.verdict.Failed > 0 {
		return 1
	}
	return 0
}

// newcomer carries out the commands of the documents.
type newcomer struct {
	place   *place
	out     io.Writer
	log     io.Writer
	env     []string
	nodes   []string
	verdict verdict
}

// follow carries out the documents and counts failures. If there is no cluster, it skips the rest
// of a document.
func (n *newcomer) follow(ctx context.Context) {
	if !n.do(ctx, "/root", Step{Command: "git clone -q /tmp/berth.bundle " + repository}, "README.md") {
		return
	}
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		n.fails("README.md", 0, "", err)
		return
	}
	tutorial, err := os.ReadFile(filepath.Join(repository, "docs/tutorial.md"))
	if err != nil {
		n.fails("docs/tutorial.md", 0, "", err)
		return
	}
	if end := n.play(ctx); end != nil {
		n.read(ctx, "README.md", Steps(string(readme), "Try it in a minute"))
		n.do(ctx, repository, Step{Command: "kubectl delete pod --all"}, "between the documents")
		n.read(ctx, "docs/tutorial.md", Steps(string(tutorial), ""))
		end()
	}
	if !n.place.NoDemo {
		start := time.Now()
		n.verdict.Commands++
		n.say("make demo")
		out, err := n.run(ctx, repository, "make demo", demoLimit)
		n.verdict.DemoSeconds = seconds(start)
		if err != nil {
			n.fails("README.md", 0, "make demo", fmt.Errorf("%w: %s", err, tail(out)))
		}
	}
}

// done has the prefixes of commands that were already run before a document is tested: the
// installation of packages, make play, and the export of its variables.
var done = []string{"apt-get install ", "git clone ", "make ", "export "}

// read runs the steps of a document that were not done before.
func (n *newcomer) read(ctx context.Context, name string, steps []Step) {
	for _, s := range steps {
		if !slices.ContainsFunc(done, func(d string) bool { return strings.HasPrefix(s.Command, d) }) {
			n.do(ctx, repository, s, name)
		}
	}
}

// do carries out one step, and reports whether the result is the documented one. It repeats a
// question to berth until the answer matches, because a reader types more slowly than a program.
func (n *newcomer) do(ctx context.Context, dir string, s Step, document string) bool {
	n.verdict.Commands++
	start := time.Now()
	for {
		out, err := n.run(ctx, dir, s.Command, stepLimit)
		differ := ""
		if len(s.Output) > 0 {
			differ = Differ(s.Output, strings.Split(out, "\n"), n.nodes)
		}
		if err == nil && differ == "" || isNo(s, err) && differ == "" {
			n.say(fmt.Sprintf("%s:%d: %s (%.1f s)", document, s.Line, s.Command, seconds(start)))
			return true
		}
		if isQuestion(s) && time.Since(start) < answerLimit {
			time.Sleep(askAgain)
			continue
		}
		if differ != "" {
			n.verdict.Differ++
			n.say(fmt.Sprintf("DIFFERS: %s:%d: %s: %s\n%s", document, s.Line, s.Command, differ, out))
		} else {
			n.fails(document, s.Line, s.Command, fmt.Errorf("%w: %s", err, tail(out)))
		}
		return false
	}
}

// isQuestion reports whether a command changes nothing.
func isQuestion(s Step) bool {
	return strings.HasPrefix(s.Command, "kubectl berth ") && !strings.Contains(s.Command, "--execute")
}

// isNo reports whether the error is an answer, because berth exits with 1 if the answer is no.
func isNo(s Step, err error) bool {
	exit := (*exec.ExitError)(nil)
	return isQuestion(s) && errors.As(err, &exit) && exit.ExitCode() == 1
}

func (n *newcomer) say(text string) {
	fmt.Fprintln(n.out, text)
	fmt.Fprintf(n.log, "\n### %s\n", text)
}

func (n *newcomer) fails(document string, line int, command string, err error) {
	n.verdict.Failed++
	n.say(fmt.Sprintf("FAILED: %s:%d: %s: %v", document, line, command, err))
}

// shell returns a command as a terminal runs it: in its own process group.
func (n *newcomer) shell(ctx context.Context, dir, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/bash", "-o", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = dir, n.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs a command to its end, and returns all that it prints.
func (n *newcomer) run(ctx context.Context, dir, command string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	cmd := n.shell(ctx, dir, command)
	cmd.Stdout = io.MultiWriter(&out, n.log)
	cmd.Stderr = cmd.Stdout
	fmt.Fprintf(n.log, "\n$ %s\n", command)
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done after %v: %w", limit, err)
	}
	return out.String(), err
}

// export is the line of make play for the other terminal.
var export = regexp.MustCompile(`(?m)^ *export KUBECONFIG=(\S+) PATH=(\S+):\$PATH$`)

// play starts make play, waits for the cluster, and sets the variables that make play prints. The
// result presses Ctrl-C and checks for remains; it is nil if there is no cluster.
func (n *newcomer) play(ctx context.Context) (end func()) {
	n.verdict.Commands++
	n.say("make play")
	start := time.Now()
	cmd := n.shell(ctx, repository, "make play")
	said := &watched{log: n.log, want: ready, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	ended := make(chan error, 1)
	err := cmd.Start()
	if err != nil {
		n.fails("README.md", 0, "make play", err)
		return nil
	}
	go func() { ended <- cmd.Wait() }()
	select {
	case <-said.seen:
	case err = <-ended:
		err = fmt.Errorf("ended: %w", err)
	case <-time.After(playLimit):
		err = fmt.Errorf("no cluster after %v", playLimit)
	}
	n.verdict.PlaySeconds = seconds(start)
	vars := export.FindStringSubmatch(said.text())
	if err == nil && vars == nil {
		err = errors.New("it printed no export line for the other terminal")
	}
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		n.fails("README.md", 0, "make play", fmt.Errorf("%w: %s", err, tail(said.text())))
		return nil
	}
	for i, e := range n.env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			n.env[i] = "PATH=" + vars[2] + ":" + path
		}
	}
	n.env = append(n.env, "KUBECONFIG="+vars[1])
	n.say(fmt.Sprintf("a cluster after %.0f s", n.verdict.PlaySeconds))
	names, err := n.run(ctx, repository, "kubectl get nodes -o name", stepLimit)
	if err != nil {
		n.fails("README.md", 0, "kubectl get nodes", err)
	}
	n.nodes = strings.Fields(strings.ReplaceAll(names, "node/", ""))
	return func() { n.end(cmd, ended, vars[1]) }
}

// end presses Ctrl-C, and checks for remains.
func (n *newcomer) end(cmd *exec.Cmd, ended <-chan error, kubeconfig string) {
	n.verdict.Commands++
	start := time.Now()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-ended:
	case <-time.After(endLimit):
		n.fails("README.md", 0, "Ctrl-C", fmt.Errorf("make play still runs after %v", endLimit))
		return
	}
	var left []string
	for left = remains(kubeconfig); len(left) > 0 && time.Since(start) < endLimit; left = remains(kubeconfig) {
		time.Sleep(askAgain)
	}
	if len(left) > 0 {
		n.fails("README.md", 0, "Ctrl-C", fmt.Errorf("left behind: %s", strings.Join(left, ", ")))
		return
	}
	n.say(fmt.Sprintf("Ctrl-C (%.1f s), and nothing is left", seconds(start)))
}

// remains lists the remains of a playground: processes, folders, credentials.
func remains(kubeconfig string) (left []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// An ended process has no command line. It may remain, because no process here waits for
		// orphans.
		if line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); err == nil && len(line) > 0 {
			left = append(left, "process "+strings.ReplaceAll(string(line[:min(len(line), 100)]), "\x00", " "))
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "berth-*")); err != nil || len(dirs) > 0 {
		left = append(left, dirs...)
	}
	if _, err := os.Stat(kubeconfig); err == nil {
		left = append(left, kubeconfig)
	}
	return left
}

// watched is a writer that reports when a text has been written to it.
type watched struct {
	log  io.Writer
	want string
	seen chan struct{}

	mu    sync.Mutex
	all   bytes.Buffer // guarded by mu
	found bool         // guarded by mu
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	if !w.found && strings.Contains(w.all.String(), w.want) {
		w.found = true
		close(w.seen)
	}
	return w.log.Write(p)
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func seconds(since time.Time) float64 {
	return float64(time.Since(since).Round(100*time.Millisecond)) / float64(time.Second)
}

// tail is the end of an output.
func tail(text string) string { return text[max(0, len(text)-1500):] }
