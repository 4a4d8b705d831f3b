package obeying

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/trial"
)

// Kind is a kind of trial.
type Kind struct {
	Name string
	// Nodes are the hollow nodes. The first Obey of them have authority berth.
	Nodes []hollow.Spec
	Obey  int
	// Manifests are objects that are created in addition to Berth's own.
	Manifests [][]byte
	// Stream makes the random numbers of this kind differ from other kinds' with the same seed.
	Stream uint64
	// New creates the load.
	New func(*Trial) (Load, error)
}

// Load creates the pods of a trial and checks the result. Only one goroutine calls it.
type Load interface {
	// Make returns the next pods to create; i counts the calls from 0.
	Make(ctx context.Context, i int) ([]*corev1.Pod, error)
	// Awaits describes what the trial still waits for after all pods have been created. It returns
	// "" if it waits for nothing.
	Awaits(context.Context) (string, error)
	// Clean deletes everything that the load has created.
	Clean(context.Context) error
	// Result returns the last line of the output, and a description of the fault, or "". The caller
	// holds the lock.
	Result(seed uint64) (line any, wrong string)
}

// Trial is a running trial.
type Trial struct {
	*Observer
	Rand *rand.Rand
	// Made counts the created pods.
	Made int
	// Killing is called before an agent or the scheduler is killed. It may be nil.
	Killing   func()
	kind      *Kind
	load      Load
	live      []string
	scheduler *trial.Part
}

// options are the values of the flags.
type options struct {
	seed uint64
	pods int
	keep bool
	dir  string
	load string
}

// Main is the main function of a program that runs these kinds of trials.
func Main(kinds ...Kind) {
	o := &options{}
	find := func() *Kind {
		for i := range kinds {
			if kinds[i].Name == o.load {
				return &kinds[i]
			}
		}
		return nil
	}
	(&trial.Program{
		Name: "obeying", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir,
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.pods, "pods", 100, "how many times to create pods")
			f.StringVar(&o.load, "load", "", "what is played")
		},
		Check: func() error {
			switch {
			case find() == nil:
				return fmt.Errorf("-load %q: want koordinator, devices or resize", o.load)
			case o.pods < 1 || o.pods > 10000:
				return fmt.Errorf("-pods %d: want 1 to 10000", o.pods)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, find(), o, out) },
	}).Main()
}

// play starts the cluster, runs the trial with the seed, and returns an error if a check failed.
func play(ctx context.Context, k *Kind, o *options, out io.Writer) error {
	t := &Trial{Rand: rand.New(rand.NewPCG(o.seed, k.Stream)), kind: k}
	return trial.With(ctx, out, func(ctx context.Context) (*trial.Cluster, error) {
		c, err := trial.Start(ctx, demo.ClusterOptions{Dir: o.dir, Keep: o.keep, Nodes: k.Nodes, Manifests: trial.Manifests(Namespace, k.Manifests...)})
		if err == nil {
			err = c.StartAgents(ctx)
		}
		if err == nil {
			t.scheduler, err = c.StartScheduler(trial.Scheduler{Name: "scheduler"}, nil)
		}
		return c, err
	}, func(c *trial.Cluster) error { return t.play(ctx, c, o, out) })
}

func (t *Trial) play(ctx context.Context, c *trial.Cluster, o *options, out io.Writer) (err error) {
	k := t.kind
	if t.Observer, err = NewObserver(c, k.Nodes[:k.Obey]); err != nil {
		return err
	}
	if t.load, err = k.New(t); err != nil {
		return err
	}
	err = t.Observe(ctx, func() error { return t.drive(ctx, o.pods, out) })
	t.Lock()
	defer t.Unlock()
	line, wrong := t.load.Result(o.seed)
	if wrong != "" {
		fmt.Fprintln(out, wrong)
		err = cmp.Or(err, errors.New("nodes did not follow the decisions"))
	}
	text, _ := json.Marshal(line) // cannot fail: only numbers
	fmt.Fprintln(out, string(text))
	return err
}

// drive creates the pods and injects faults. Then it waits until the cluster has settled, and
// deletes the pods.
func (t *Trial) drive(ctx context.Context, pods int, out io.Writer) error {
	for i := range pods {
		if err := t.step(ctx, i); err != nil {
			return err
		}
		Pause(ctx, time.Duration(t.Rand.IntN(400))*time.Millisecond) // the pace of the load
	}
	fmt.Fprintf(out, "%d pods created; waiting for all that fit to run\n", t.Made)
	if err := t.Settle(ctx, out, t.load.Awaits); err != nil {
		return err
	}
	return t.load.Clean(ctx)
}

func (t *Trial) step(ctx context.Context, i int) error {
	if err := t.Ended(); err != nil {
		return err
	}
	pods, err := t.load.Make(ctx, i)
	if err != nil {
		return err
	}
	api := t.Client.CoreV1().Pods(Namespace)
	for _, pod := range pods {
		if _, err := api.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		t.live = append(t.live, pod.Name)
		t.Made++
	}
	if len(t.live) > 12 && t.Rand.IntN(3) > 0 {
		at := t.Rand.IntN(len(t.live))
		_ = api.Delete(ctx, t.live[at], metav1.DeleteOptions{}) // it may have been evicted
		t.live = append(t.live[:at], t.live[at+1:]...)
	}
	kill := t.Rand.IntN(25)
	if kill < 2 && t.Killing != nil {
		t.Killing()
	}
	switch kill {
	case 0:
		return t.scheduler.Restart()
	case 1:
		node := t.kind.Nodes[t.Rand.IntN(len(t.kind.Nodes))].Name
		return errors.Join(t.StopAgent(node), t.StartAgent(ctx, node))
	}
	return nil
}
