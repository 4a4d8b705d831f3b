package oracle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/test/replay/cases"
)

func init() {
	klog.SetLoggerWithOptions(logr.Discard(), klog.ContextualLogger(true))
	klog.SetOutput(io.Discard)
}

// Options configure how cases are run. The zero value is usable.
type Options struct {
	// Dir is the parent directory of a case's checkpoints; "" means os.TempDir. It should be in
	// memory.
	Dir string
	// Timeout is the processor time that a case may take; 0 means 20 seconds.
	Timeout time.Duration
}

// Outcome is how a case ended.
type Outcome string

const (
	// Finished: all events were carried out.
	Finished Outcome = "finished"
	// Hung: the kubelet did not return from the event after the last one in the result. Its
	// goroutine still runs: end the process.
	Hung Outcome = "hung"
	// Crashed: the kubelet panicked in the event after the last one in the result.
	Crashed Outcome = "crashed"
)

// Told is the kubelet's answer to a case.
type Told struct {
	Result  cases.Result `json:"result"`
	Outcome Outcome      `json:"outcome"`
	// Detail describes a hang or a crash: the kubelet's panic and its place.
	Detail string `json:"detail,omitempty"`
}

// Run runs a case with genuine managers. It changes global feature gates, so run one case at a time
// per process. The error is about this process (for example a missing directory), never about the
// case.
func Run(c *cases.Case, opts Options) (Told, error) {
	dir, err := os.MkdirTemp(opts.Dir, "oracle-")
	if err != nil {
		return Told{}, err
	}
	defer os.RemoveAll(dir)
	restore, err := setGates(c.Config.FeatureGates)
	if err != nil {
		return Told{Result: cases.Result{ID: c.ID, StartupError: err.Error(), Events: []cases.EventResult{}}, Outcome: Finished}, nil
	}
	defer restore()
	begin := time.Now()
	t := watch(&player{c: c, dir: dir}, opts.Timeout)
	t.Result.Millis = float64(time.Since(begin).Microseconds()) / 1000
	return t, nil
}

// setGates sets the case's gates, and before them the gates that allow every option, as in the
// recorded cases.
func setGates(gates map[string]bool) (restore func(), err error) {
	gate := utilfeature.DefaultMutableFeatureGate
	want := map[string]bool{"CPUManagerPolicyAlphaOptions": true, "CPUManagerPolicyBetaOptions": true,
		"TopologyManagerPolicyAlphaOptions": true, "TopologyManagerPolicyBetaOptions": true}
	maps.Copy(want, gates)
	known := gate.GetAll()
	for name := range want {
		if _, ok := known[featuregate.Feature(name)]; !ok {
			if _, asked := gates[name]; asked {
				return nil, fmt.Errorf("unrecognized feature gate: %s", name)
			}
			delete(want, name)
		}
	}
	// A refused setting would remain and prevent every later setting.
	if err := gate.DeepCopy().SetFromMap(want); err != nil {
		return nil, err
	}
	if err := gate.SetFromMap(want); err != nil {
		return nil, err
	}
	return resetGates, nil
}

// resetGates gives every gate its default, including gates that AllAlpha or AllBeta have switched.
func resetGates() {
	gate := utilfeature.DefaultMutableFeatureGate
	for name := range gate.GetAll() {
		if err := gate.ResetFeatureValueToDefault(name); err != nil {
			panic(err) // the next case would run with these gates
		}
	}
}

// watch runs the case in its own goroutine, and returns an error if it takes too long.
func watch(p *player, timeout time.Duration) Told {
	if timeout == 0 {
		timeout = 20 * time.Second
	}
	t := Told{Result: cases.Result{ID: p.c.ID, Events: []cases.EventResult{}}}
	p.events, p.end = make(chan cases.EventResult), make(chan ending, 1)
	go p.play()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	begin, spent := time.Now(), processorTime()
	for {
		select {
		case e := <-p.events:
			t.Result.Events = append(t.Result.Events, e)
		case end := <-p.end:
			t.Result.StartupError, t.Outcome, t.Detail = end.startupError, end.outcome, end.detail
			return t
		case <-tick.C:
			if processorTime()-spent > timeout || time.Since(begin) > patience*timeout {
				t.Outcome, t.Detail = Hung, fmt.Sprintf("no answer in %v of processor time", timeout)
				return t
			}
		}
	}
}

// patience is the factor by which a busy machine may extend a case's time.
const patience = 20

// processorTime returns the processor time of this process. An endless loop uses it at the speed of
// the clock; a case on a busy machine does not.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type ending struct {
	outcome      Outcome
	startupError string
	detail       string
}

// player carries out one case.
type player struct {
	c   *cases.Case
	dir string
	// lives counts the kubelets so far. Each has its own directory in dir.
	lives int
	k     *kubelet
	// pods are the admitted pods in the order of their first admission.
	order []string

	events chan cases.EventResult
	end    chan ending
}

func (p *player) play() {
	end := ending{outcome: Crashed}
	defer func() {
		if end.outcome == Crashed {
			end.detail = fmt.Sprintf("%v\n%s", recover(), debug.Stack())
		}
		p.k.stop()
		p.end <- end
	}()
	if err := p.boot(nil); err != nil {
		end = ending{outcome: Finished, startupError: err.Error()}
		return
	}
	for i := range p.c.Events {
		e := p.event(&p.c.Events[i])
		e.Event = i
		p.events <- e
		if e.Panic != "" {
			break
		}
	}
	end = ending{outcome: Finished}
}

// boot starts a kubelet with the checkpoints, pods, containers and plugins of its predecessor.
func (p *player) boot(old *kubelet) error {
	dir, err := p.nextLife()
	if err != nil {
		return err
	}
	s, err := newSettings(p.c, dir)
	if err != nil {
		return err
	}
	pods, pools := &podList{running: map[string][]string{}}, []*cases.Pool(nil)
	if old == nil {
		for i := range p.c.Devices {
			pools = append(pools, &p.c.Devices[i])
		}
	} else {
		// Copies, because the predecessor's reconciliation may still read its own lists.
		pods, pools = old.podList.clone(), old.pools
	}
	k, err := newKubelet(s, pods)
	if err != nil {
		return err
	}
	p.k = k
	return k.start(pools)
}

// nextLife makes a directory for the kubelet that starts now, with the saved files of its
// predecessor. A CPU manager's reconciliation cannot be ended and may write once more, into its own
// directory.
func (p *player) nextLife() (string, error) {
	last := filepath.Join(p.dir, strconv.Itoa(p.lives))
	p.lives++
	next := filepath.Join(p.dir, strconv.Itoa(p.lives))
	for _, name := range []string{kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile} {
		to := filepath.Join(next, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		saved, err := os.ReadFile(filepath.Join(last, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.WriteFile(to, saved, 0o600)); err != nil {
			return "", err
		}
	}
	return next, nil
}

func (p *player) event(e *cases.Event) cases.EventResult {
	out := cases.EventResult{Type: e.Type, UID: e.UID}
	switch e.Type {
	case cases.Admit:
		out = p.arrive(e)
	case cases.Remove:
		p.k.remove(e.UID)
		p.forget(e.UID)
	case cases.Start:
		p.k.startContainers(e.UID, e.Containers)
		if pod := p.k.pod(e.UID); pod != nil {
			out.Containers = p.k.holdings(pod)
		}
	case cases.Devices:
		if err := p.k.setPool(e.Pool); err != nil {
			out.Panic = err.Error()
		}
	case cases.Restart:
		p.restart(&out)
	}
	if out.Panic == "" {
		out.State = p.k.state()
	}
	return out
}

// arrive admits a pod, while others end.
func (p *player) arrive(e *cases.Event) cases.EventResult {
	pod := e.Pod.DeepCopy()
	corev1defaults.SetDefaults_Pod(pod)
	pod.Spec.InitContainers = slices.Clip(pod.Spec.InitContainers)
	p.k.endings, p.k.step = e.Meanwhile, 0
	out := p.admit(pod)
	for _, m := range e.Meanwhile {
		p.k.remove(m.UID)
		p.forget(m.UID)
	}
	return out
}

func (p *player) admit(pod *corev1.Pod) cases.EventResult {
	uid := string(pod.UID)
	r := p.k.admit(pod)
	out := cases.EventResult{Type: cases.Admit, UID: uid, Admitted: &r.Admit}
	if !r.Admit {
		out.Reason, out.Message = r.Reason, r.Message
		p.forget(uid)
		return out
	}
	if !slices.Contains(p.order, uid) {
		p.order = append(p.order, uid)
	}
	out.Containers = p.k.holdings(pod)
	return out
}

func (p *player) forget(uid string) {
	p.order = slices.DeleteFunc(p.order, func(o string) bool { return o == uid })
}

func (p *player) restart(out *cases.EventResult) {
	old := p.k
	if err := old.stop(); err != nil {
		out.Panic = err.Error()
		return
	}
	if err := p.reboot(old); err != nil {
		out.Panic = "restart failed: " + err.Error()
		return
	}
	for _, uid := range slices.Clone(p.order) {
		if pod := p.k.pod(uid); pod != nil {
			out.Readmit = append(out.Readmit, p.admit(pod))
		}
	}
}

// reboot calls boot, and treats a crash as a failed restart.
func (p *player) reboot(old *kubelet) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return p.boot(old)
}
