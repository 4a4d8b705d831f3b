package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/defrag"
	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// stage is the cluster of a scene, with helpers for steps.
type stage struct {
	*Cluster
	out io.Writer
	// named are the replicas that were already printed.
	named []string
	// room is the plan that plansRoom found.
	room *query.Room
}

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

// sceneLimit is the time limit for each result that a step waits for.
const sceneLimit = 90 * time.Second

func (s *stage) running(ctx context.Context, name string) error {
	pod, err := s.until(ctx, name, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "   pod %s runs on %s, %s\n", name, pod.Spec.NodeName, cpusInWords(pod))
	return nil
}

// waits creates the pod, and waits until the scheduler's message in the pod's status contains the
// reason.
func (s *stage) waits(ctx context.Context, pod *corev1.Pod, reason string) error {
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.waiting(ctx, pod.Name, reason)
}

// waiting waits until the scheduler's message in the pod's status contains the reason.
func (s *stage) waiting(ctx context.Context, name, reason string) error {
	pod, err := s.until(ctx, name, func(p *corev1.Pod) bool { return strings.Contains(wire.Unscheduled(p).Message, reason) })
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "   pod %s waits: %s\n", name, wire.Unscheduled(pod).Message)
	return nil
}

func (s *stage) ends(ctx context.Context, name string) error {
	pods := s.Client.CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := s.poll(ctx, func(ctx context.Context) bool {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("pod %s does not end: %w", name, err)
	}
	fmt.Fprintf(s.out, "   pod %s has ended\n", name)
	return nil
}

func (s *stage) gang(ctx context.Context, name string, members int) error {
	for i := range members {
		if err := s.create(ctx, gangPod(name, i, members)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) gangRuns(ctx context.Context, name string, members int) error {
	if err := s.gang(ctx, name, members); err != nil {
		return err
	}
	return s.gangRunning(ctx, name, members)
}

func (s *stage) gangRunning(ctx context.Context, name string, members int) error {
	for i := range members {
		if err := s.running(ctx, memberName(name, i)); err != nil {
			return err
		}
	}
	return nil
}

// gangWaits creates a gang and waits until the status of a member says that the gang does not fit.
// It returns an error if a member has a node by then.
func (s *stage) gangWaits(ctx context.Context, name string, members int) error {
	if err := s.gang(ctx, name, members); err != nil {
		return err
	}
	var told *corev1.Pod
	placed := 0
	err := s.poll(ctx, func(ctx context.Context) bool {
		told, placed = nil, 0
		for i := range members {
			pod, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, memberName(name, i), metav1.GetOptions{})
			switch {
			case err != nil:
				return false // poll tries again until its limit
			case pod.Spec.NodeName != "":
				placed++
			case strings.Contains(wire.Unscheduled(pod).Message, "does not fit"):
				told = pod
			}
		}
		return told != nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("no pod's condition says that gang %s does not fit: %w", name, err)
	case placed > 0:
		return fmt.Errorf("gang %s: %s with a node: want none", name, wire.Counted(placed, "pod"))
	}
	fmt.Fprintf(s.out, "   pod %s waits: %s\n", told.Name, wire.Unscheduled(told).Message)
	return nil
}

// fillGPUs puts a replica of a ReplicaSet and a pod without a controller on every NUMA node of the
// GPU servers. It fills one server while the other is cordoned.
func (s *stage) fillGPUs(ctx context.Context) error {
	sets := s.Client.AppsV1().ReplicaSets(metav1.NamespaceDefault)
	template := gpuPod("serve", 1)
	template.Labels = map[string]string{"app": "serve"}
	_, err := sets.Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "serve"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range 4 {
		if i%2 == 0 {
			if err := s.cordonAllBut(ctx, i/2); err != nil {
				return err
			}
		}
		scale := fmt.Sprintf(`{"spec":{"replicas":%d}}`, i+1)
		if _, err := sets.Patch(ctx, "serve", types.MergePatchType, []byte(scale), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := s.replicasRun(ctx, "serve", i+1); err != nil {
			return err
		}
		if err := s.runs(ctx, gpuPod(fmt.Sprint("short-", i), 1)); err != nil {
			return err
		}
	}
	return s.cordonAllBut(ctx, -1)
}

// cordonAllBut cordons all nodes except one; -1 cordons none.
func (s *stage) cordonAllBut(ctx context.Context, open int) error {
	for i, node := range s.Nodes {
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, open >= 0 && i != open)
		if _, err := s.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// replicasRun waits until exactly the wanted number of replicas run, and prints those that it has
// not printed before.
func (s *stage) replicasRun(ctx context.Context, app string, want int) error {
	var running []corev1.Pod
	err := s.poll(ctx, func(ctx context.Context) bool {
		pods, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false // poll tries again until its limit
		}
		running = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
		return len(running) == want
	})
	if err != nil {
		return fmt.Errorf("%s: %s: want %d: %w", app, wire.Counted(len(running), "running pod"), want, err)
	}
	for i := range running {
		if p := &running[i]; !slices.Contains(s.named, p.Name) {
			s.named = append(s.named, p.Name)
			fmt.Fprintf(s.out, "   replica %s runs on %s, %s\n", p.Name, p.Spec.NodeName, cpusInWords(p))
		}
	}
	return nil
}

// The method free waits until the nodes' reports show exactly the wanted number of free devices in
// total.
func (s *stage) free(ctx context.Context, device string, want uint64) error {
	c, err := s.survey(metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	var free uint64
	err = s.poll(ctx, func(ctx context.Context) bool {
		now, err := c.Survey(ctx, "")
		if err != nil {
			return false // poll tries again until its limit
		}
		free = 0
		for _, n := range now.Nodes() {
			for i := range n.NUMANodes {
				for _, d := range n.NUMANodes[i].Devices {
					if d.Resource == device {
						free += d.Free
					}
				}
			}
		}
		return free == want
	})
	if err != nil {
		return fmt.Errorf("%s: %d free: want %d: %w", device, free, want, err)
	}
	return nil
}

// plansRoom finds the pods that must move for the named pod, as kubectl berth defrag does.
func (s *stage) plansRoom(ctx context.Context, name string) error {
	c, err := s.survey(metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	s.room, err = query.MakeRoomFor(ctx, c, c.Namespace, name, query.RoomOptions{})
	if err != nil {
		return err
	}
	if s.room.Outcome != defrag.Found.String() {
		return fmt.Errorf("no plan makes room for %s: %s", name, s.room.Outcome)
	}
	for i := range s.room.Moves {
		m := &s.room.Moves[i]
		to := m.To
		if m.ToNUMA != "" {
			to = "NUMA node " + m.ToNUMA + " of " + to
		}
		fmt.Fprintf(s.out, "   pod %s moves from NUMA node %s of %s to %s\n", m.Name, m.FromNUMA, m.From, to)
	}
	return nil
}

// makesRoom carries out the plan of plansRoom, as kubectl berth defrag --execute does.
func (s *stage) makesRoom(ctx context.Context) error {
	tell := func(format string, args ...any) { fmt.Fprintf(s.out, "   "+format+"\n", args...) }
	_, err := moving.Run(ctx, s.room.Moving(), moving.Options{Pods: s.Client.CoreV1(), Tell: tell})
	return err
}

// poll calls done repeatedly until it returns true or sceneLimit has passed.
func (s *stage) poll(ctx context.Context, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	return s.await(ctx, "a step of the scene", done)
}

func (s *stage) until(ctx context.Context, name string, done func(*corev1.Pod) bool) (*corev1.Pod, error) {
	var last *corev1.Pod
	err := s.poll(ctx, func(ctx context.Context) bool {
		pod, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false // poll tries again until its limit
		}
		last = pod
		return done(pod)
	})
	switch {
	case err == nil:
		return last, nil
	case last == nil:
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	state := string(last.Status.Phase)
	if why := wire.Unscheduled(last).Message; why != "" {
		state += " (" + why + ")"
	}
	return nil, fmt.Errorf("pod %s is %s: %w", name, state, err)
}

// cpusInWords describes the CPUs in the scheduler's decision for the pod.
func cpusInWords(pod *corev1.Pod) string {
	p, found, err := wire.ReadPlacement(pod)
	if err != nil || !found || len(p.Decision.Containers) == 0 || p.Decision.Containers[0].CPUs.IsEmpty() {
		return "on shared CPUs"
	}
	return "with exclusive CPUs " + p.Decision.Containers[0].CPUs.String()
}

// scenePod returns a pod with exclusive (pinned) or shared CPUs; node is the required node, or "".
func scenePod(name, node string, cpus int64, pinned bool) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
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

// gpuPod returns a pod with GPUs and 2 exclusive CPUs.
func gpuPod(name string, gpus int64) *corev1.Pod {
	pod := scenePod(name, "", 2, true)
	pod.Spec.Containers[0].Resources.Limits[gpuResource] = *resource.NewQuantity(gpus, resource.DecimalSI)
	return pod
}

// gangPod returns a member of a gang, with 30 exclusive CPUs.
func gangPod(gang string, i, minimum int) *corev1.Pod {
	pod := scenePod(memberName(gang, i), "", 30, true)
	pod.Annotations = map[string]string{wire.GangAnnotation: gang, wire.GangMinimumAnnotation: strconv.Itoa(minimum)}
	return pod
}

func memberName(gang string, i int) string { return fmt.Sprintf("%s-%d", gang, i) }
