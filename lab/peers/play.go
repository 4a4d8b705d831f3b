package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/demo"
)

// result counts what happened to the pods.
type result struct {
	Scheduler string `json:"scheduler"`
	Seed      uint64 `json:"seed"`
	// Wanted is the number of pods in the workload. Report.Pods counts a refused pod again at each
	// creation.
	Wanted int `json:"wanted"`
	// Refused is the number of pods that kubelets refused, RefusedOf100 the number per 100 bound
	// pods.
	Refused      int     `json:"refused"`
	RefusedOf100 float64 `json:"refusedOf100"`
	// CPUMillis is the CPU time of the scheduler's process in milliseconds for each created pod,
	// from the first creation to the end.
	CPUMillis float64 `json:"cpuMillisPerPod"`
	// Load is the machine's load average during the run.
	Load float64 `json:"loadAverage"`
	*demo.Report
}

const (
	// startLimit bounds the start of the cluster and of the scheduler on a busy machine.
	startLimit = 10 * time.Minute
	// patience is the runner's Patience. Some schedulers wait for reports that come every 10 s.
	patience = 40 * time.Second
	// tellEvery is the interval of progress messages and of reading the load average.
	tellEvery = 15 * time.Second
)

// play runs the pods on a fresh cluster.
func (q *question) play(ctx context.Context, s *contestant) (_ *result, err error) {
	fmt.Fprintf(q.progress, "%s: starting an API server and %d nodes\n", s.Title(), demo.AllNodes)
	c, err := q.start(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if q.keep {
		fmt.Fprintln(q.progress, "logs and checkpoints stay in", c.Dir())
	}
	before, err := cpuOf(s.argument)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var loads []float64
	told := time.Now()
	progress := func(elapsed time.Duration, r *demo.Report, pending int) {
		if ended := s.ended(); ended != nil {
			cancel(ended)
		}
		if time.Since(told) < tellEvery {
			return
		}
		told = time.Now()
		load := loadAverage()
		loads = append(loads, load)
		fmt.Fprintf(q.progress, "%s: %3.0f s: %d created, %d ran, %d waiting, %d refused; load average %.1f\n",
			s.Title(), elapsed.Seconds(), r.Pods, r.Running, pending, r.Refused(), load)
	}
	w := demo.Generate(q.seed, demo.AllNodes)
	runner := &demo.Runner{Cluster: c, Workload: w, Predicts: s.Predicts(), Patience: patience, Change: s.change, Progress: progress}
	report, err := runner.Run(ctx)
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	after, err := cpuOf(s.argument)
	if err != nil {
		return nil, err
	}
	for _, note := range report.Notes {
		fmt.Fprintf(q.progress, "%s: %s\n", s.Title(), note)
	}
	r := &result{Scheduler: s.Title(), Seed: q.seed, Wanted: len(w.Pods), Refused: report.Refused(), Report: report}
	r.RefusedOf100 = 100 * float64(r.Refused) / float64(max(1, r.Refused+report.Running))
	r.CPUMillis = float64((after - before).Milliseconds()) / float64(report.Pods)
	for _, load := range loads {
		r.Load += load / float64(len(loads))
	}
	return r, nil
}

// start starts the cluster, the scheduler's requirements and the scheduler, and returns after the
// first pod was placed.
func (q *question) start(ctx context.Context, s *contestant) (_ *demo.Cluster, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	nodes, err := demo.Nodes(demo.AllNodes)
	if err != nil {
		return nil, err
	}
	if s.node != nil {
		for i := range nodes {
			if err := s.node(&nodes[i]); err != nil {
				return nil, err
			}
		}
	}
	manifests, err := s.Manifests()
	if err != nil {
		return nil, err
	}
	self := []string{os.Args[0]}
	c, err := demo.StartCluster(ctx, demo.ClusterOptions{
		Nodes: nodes, NodeCommand: append(slices.Clone(self), demo.VerbNode), Manifests: manifests, Agent: s.agent, Metrics: true, Keep: q.keep,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	stop, err := s.Start(ctx, c, self)
	if err != nil {
		return nil, err
	}
	c.OnStop(stop)
	return c, q.placesOne(ctx, c, s)
}

// placesOne waits until the scheduler has placed a pod, and removes it.
func (q *question) placesOne(ctx context.Context, c *demo.Cluster, s *contestant) error {
	pods := c.Client.CoreV1().Pods(metav1.NamespaceDefault)
	first := demo.Pod{Containers: []demo.Container{{MilliCPU: 100, MemoryBytes: 1 << 20, Burstable: true}}}
	pod := first.Object("first")
	pod.Namespace = metav1.NamespaceDefault
	if s.change != nil {
		s.change(pod)
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	await := func(done func(*corev1.Pod, error) bool) error {
		return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return done(pods.Get(ctx, pod.Name, metav1.GetOptions{})), s.ended()
		})
	}
	if err := await(func(p *corev1.Pod, err error) bool { return err == nil && p.Status.Phase == corev1.PodRunning }); err != nil {
		return fmt.Errorf("the first pod does not run: %w", err)
	}
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return await(func(_ *corev1.Pod, err error) bool { return apierrors.IsNotFound(err) })
}
