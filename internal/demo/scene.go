package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
)

// Scene is a short play on a playground of its own that shows one thing.
type Scene struct {
	Name string
	// About says in a sentence what is shown.
	About string
	// Nodes is how many nodes it needs, of those that Nodes returns.
	Nodes int
	// Berth is the scheduler that it is played under.
	Berth Berth
	play  func(ctx context.Context, s *stage) error
}

// Scenes are those that there are, by name.
var Scenes = []Scene{silentAgent}

// SceneOf returns the named scene.
func SceneOf(name string) (*Scene, error) {
	for i := range Scenes {
		if Scenes[i].Name == name {
			return &Scenes[i], nil
		}
	}
	names := make([]string, 0, len(Scenes))
	for i := range Scenes {
		names = append(names, Scenes[i].Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("%q: want one of %s", name, strings.Join(names, ", "))
}

// Play plays the scene on a running cluster and tells to w what happens.
func (s *Scene) Play(ctx context.Context, c *Cluster, w io.Writer) error {
	if err := s.play(ctx, &stage{Cluster: c, out: w}); err != nil {
		return fmt.Errorf("scene %s: %w", s.Name, err)
	}
	return nil
}

// sceneStale is after how long without a sign of life a node is not relied on in a scene: sooner
// than on a cluster, for the sake of who watches.
const sceneStale = 10 * time.Second

var silentAgent = Scene{
	Name:  "silent-agent",
	About: "An agent dies. Pods that would be pinned stay away from its node until it is back; others do not care.",
	Nodes: 2,
	Berth: Berth{Args: &scheduler.Args{StaleAfter: metav1.Duration{Duration: sceneStale}}},
	play: func(ctx context.Context, s *stage) error {
		node := s.Nodes[0].Name
		steps := []func(context.Context) error{
			func(ctx context.Context) error {
				s.tell("The agent of %s reports what its kubelet hands out. A pod with 4 CPUs of its own:", node)
				return s.runs(ctx, scenePod("before", node, true))
			},
			func(ctx context.Context) error {
				s.tell("The agent of %s dies. Its kubelet and its pods do not notice. %v later the report is not relied on:", node, sceneStale)
				if err := s.StopAgent(node); err != nil {
					return err
				}
				return s.waits(ctx, scenePod("during", node, true), wire.NoSignOfLife)
			},
			func(ctx context.Context) error {
				s.tell("A pod that shares CPUs may go there all the same:")
				return s.runs(ctx, scenePod("ordinary", node, false))
			},
			func(ctx context.Context) error {
				s.tell("A pinned pod that is free to choose goes elsewhere:")
				return s.runs(ctx, scenePod("elsewhere", "", true))
			},
			func(ctx context.Context) error {
				s.tell("The agent is back, and the pod that waited runs:")
				if err := s.StartAgent(ctx, node); err != nil {
					return err
				}
				return s.running(ctx, "during")
			},
		}
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	},
}

// scenePod returns a pod of 4 CPUs, its own or shared; node is where it has to go, "" anywhere.
func scenePod(name, node string, pinned bool) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example/app", Resources: corev1.ResourceRequirements{Requests: amounts},
		}}},
	}
	if pinned {
		pod.Spec.Containers[0].Resources.Limits = amounts
	}
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return pod
}

// stage is where a scene is played.
type stage struct {
	*Cluster
	out  io.Writer
	told int
}

// tell writes the next step.
func (s *stage) tell(format string, args ...any) {
	s.told++
	fmt.Fprintf(s.out, "\n%d. "+format+"\n", append([]any{s.told}, args...)...)
}

// runs creates the pod and waits until it runs.
func (s *stage) runs(ctx context.Context, pod *corev1.Pod) error {
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.running(ctx, pod.Name)
}

func (s *stage) create(ctx context.Context, pod *corev1.Pod) error {
	_, err := s.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// sceneLimit bounds each step.
const sceneLimit = 90 * time.Second

func (s *stage) running(ctx context.Context, name string) error {
	pod, err := s.until(ctx, name, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "   pod %s runs on %s, %s\n", name, pod.Spec.NodeName, cpusInWords(pod))
	return nil
}

// waits creates the pod once the reason has come about and waits until it is told to it.
func (s *stage) waits(ctx context.Context, pod *corev1.Pod, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	select { // before that the report counts, and rightly so
	case <-time.After(sceneStale):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	waiting, err := s.until(ctx, pod.Name, func(p *corev1.Pod) bool { return strings.Contains(unscheduled(p), reason) })
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "   pod %s waits: %s\n", pod.Name, unscheduled(waiting))
	return nil
}

func (s *stage) until(ctx context.Context, name string, done func(*corev1.Pod) bool) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	var last *corev1.Pod
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pod, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil // asked again until the limit
		}
		last = pod
		return done(pod), errors.Join(s.Ended())
	})
	switch {
	case err == nil:
		return last, nil
	case last == nil:
		return nil, fmt.Errorf("pod %s: %w", name, err)
	default:
		return nil, fmt.Errorf("pod %s is %s %s: %w", name, last.Status.Phase, unscheduled(last), err)
	}
}

// unscheduled is why the pod has no node, as its condition says.
func unscheduled(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// cpusInWords says which CPUs the pod was promised.
func cpusInWords(pod *corev1.Pod) string {
	p, found, err := wire.ReadPlacement(pod)
	if err != nil || !found || len(p.Decision.Containers) == 0 || p.Decision.Containers[0].CPUs.IsEmpty() {
		return "on shared CPUs"
	}
	return "CPUs " + p.Decision.Containers[0].CPUs.String() + " its own"
}
