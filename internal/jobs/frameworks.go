package jobs

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// framework is the plugin for a machine-learning framework.
type framework interface {
	// check returns an error if the plugin's arguments are wrong.
	check(job *batch.Job) error
	plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member)
}

var frameworks = map[string]func(*flag.FlagSet) framework{
	"mpi": newMPI, "pytorch": newPytorch, "ray": newRay, "tensorflow": newTensorflow,
}

// mpiPlugin passes the workers' hosts to the master.
type mpiPlugin struct {
	master, worker string
	port           int
}

func newMPI(flags *flag.FlagSet) framework {
	p := &mpiPlugin{}
	flags.StringVar(&p.master, "master", "master", "")
	flags.StringVar(&p.worker, "worker", "worker", "")
	flags.IntVar(&p.port, "port", 22, "")
	return p
}

func (p *mpiPlugin) check(job *batch.Job) error {
	return errors.Join(checkPort("port", p.port), checkTask(job, "master", p.master), checkTask(job, "worker", p.worker))
}

func (p *mpiPlugin) plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member) {
	openPort(pod, "mpijob-port", p.port)
	if worker := s.task(p.worker); m.task.name == p.master && worker != nil {
		addEnv(pod, corev1.EnvVar{Name: "MPI_HOST", Value: strings.Join(hostsOf(job, worker), ",")})
	}
}

// pytorchPlugin passes the master's address and the number of master and worker pods to every pod,
// and its own rank to each master and worker pod. If wait is set, workers start when the master's
// port is open, or fail after the timeout in seconds.
type pytorchPlugin struct {
	master, worker string
	port           int
	wait           bool
	timeout        int
	image          string
}

func newPytorch(flags *flag.FlagSet) framework {
	p := &pytorchPlugin{}
	flags.StringVar(&p.master, "master", "master", "")
	flags.StringVar(&p.worker, "worker", "worker", "")
	flags.IntVar(&p.port, "port", 23456, "")
	flags.BoolVar(&p.wait, "wait-master-enabled", false, "")
	flags.IntVar(&p.timeout, "wait-master-timeout", 300, "")
	flags.StringVar(&p.image, "wait-master-image", "busybox:1.36.1", "")
	return p
}

func (p *pytorchPlugin) check(job *batch.Job) error {
	return errors.Join(checkPort("port", p.port), checkTask(job, "master", p.master))
}

// awaitMaster adds an init container that waits for the master. It has the CPUs and memory of the
// first container, because without them the pod would not be Guaranteed. The pod requests no more
// with them.
func (p *pytorchPlugin) awaitMaster(pod *corev1.Pod, host string) {
	const name = "wait-for-master"
	if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) {
		return
	}
	c := corev1.Container{Name: name, Image: p.image, Command: []string{"sh", "-c", fmt.Sprintf(
		"end=$(($(date +%%s) + %d)); until nc -z %s %d; do [ $(date +%%s) -lt $end ] || exit 1; sleep 2; done", p.timeout, host, p.port)}}
	if len(pod.Spec.Containers) > 0 {
		first := &pod.Spec.Containers[0].Resources
		c.Resources = corev1.ResourceRequirements{Requests: ofCPUs(first.Requests), Limits: ofCPUs(first.Limits)}
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
}

// ofCPUs returns the amounts of CPUs and memory in the list.
func ofCPUs(list corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(list)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return name != corev1.ResourceCPU && name != corev1.ResourceMemory
	})
	return out
}

func (p *pytorchPlugin) plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member) {
	master := s.task(p.master)
	if master == nil {
		return
	}
	world := master.replicas
	if worker := s.task(p.worker); worker != nil {
		world += worker.replicas
	}
	openPort(pod, "pytorchjob-port", p.port)
	addEnv(pod, corev1.EnvVar{Name: "MASTER_ADDR", Value: hostOf(job, master, 0)}, corev1.EnvVar{Name: "MASTER_PORT", Value: strconv.Itoa(p.port)},
		corev1.EnvVar{Name: "WORLD_SIZE", Value: strconv.Itoa(int(world))})
	switch m.task.name {
	case p.master:
		addEnv(pod, corev1.EnvVar{Name: "RANK", Value: "0"})
	case p.worker:
		if p.wait {
			p.awaitMaster(pod, hostOf(job, master, 0))
		}
		addEnv(pod, corev1.EnvVar{Name: "RANK", Value: strconv.Itoa(m.index + 1)})
	}
}

// tensorflowPlugin passes the hosts of all roles to each pod in TF_CONFIG.
type tensorflowPlugin struct {
	// The names of the tasks that have the roles.
	ps, worker, chief, evaluator string
	port                         int
}

func newTensorflow(flags *flag.FlagSet) framework {
	p := &tensorflowPlugin{}
	flags.StringVar(&p.ps, "ps", "ps", "")
	flags.StringVar(&p.worker, "worker", "worker", "")
	flags.StringVar(&p.chief, "chief", "chief", "")
	flags.StringVar(&p.evaluator, "evaluator", "evaluator", "")
	flags.IntVar(&p.port, "port", 2222, "")
	return p
}

func (p *tensorflowPlugin) check(*batch.Job) error { return checkPort("port", p.port) }

// role returns TensorFlow's role of a task, or the task's own name if it has no role.
func (p *tensorflowPlugin) role(task string) (role string, known bool) {
	switch task {
	case p.chief:
		return "chief", true
	case p.worker:
		return "worker", true
	case p.ps:
		return "ps", true
	case p.evaluator:
		return "evaluator", true
	}
	return task, false
}

func (p *tensorflowPlugin) plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member) {
	if s.replicas == 1 {
		return // a single pod needs no TF_CONFIG
	}
	cluster := map[string][]string{}
	for i := range s.tasks {
		t := &s.tasks[i]
		if role, known := p.role(t.name); known {
			for index := range int(t.replicas) {
				cluster[role] = append(cluster[role], fmt.Sprintf("%s:%d", hostOf(job, t, index), p.port))
			}
		}
	}
	role, _ := p.role(m.task.name)
	config, err := json.Marshal(map[string]any{"cluster": cluster, "task": map[string]any{"type": role, "index": m.index}})
	if err != nil {
		return // encoding strings and numbers cannot fail
	}
	addEnv(pod, corev1.EnvVar{Name: "TF_CONFIG", Value: string(config)})
}

// rayPlugin sets the commands of the head and the workers.
type rayPlugin struct {
	// The names of tasks and of their containers.
	head, headContainer, worker, workerContainer string
	port, dashboardPort, clientPort              int
}

func newRay(flags *flag.FlagSet) framework {
	p := &rayPlugin{}
	flags.StringVar(&p.head, "head", "head", "")
	flags.StringVar(&p.headContainer, "headContainer", "head", "")
	flags.StringVar(&p.worker, "worker", "worker", "")
	flags.StringVar(&p.workerContainer, "workerContainer", "worker", "")
	flags.IntVar(&p.port, "port", 6379, "")
	flags.IntVar(&p.dashboardPort, "dashboardPort", 8265, "")
	flags.IntVar(&p.clientPort, "clientPort", 10001, "")
	return p
}

func (p *rayPlugin) check(job *batch.Job) error {
	return errors.Join(checkPort("port", p.port), checkPort("dashboardPort", p.dashboardPort), checkPort("clientPort", p.clientPort), checkTask(job, "head", p.head))
}

func (p *rayPlugin) plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member) {
	head := s.task(p.head)
	if head == nil {
		return
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		switch {
		case m.task.name == p.head && c.Name == p.headContainer:
			for _, port := range p.ports() {
				openPortOf(c, port.Name, int(port.Port))
			}
			c.Command = []string{"sh", "-c", fmt.Sprintf("ray start --head --block --dashboard-host=0.0.0.0 --port=%d --dashboard-port=%d --ray-client-server-port=%d",
				p.port, p.dashboardPort, p.clientPort)}
		case m.task.name == p.worker && c.Name == p.workerContainer:
			c.Command = []string{"sh", "-c", fmt.Sprintf("ray start --block --address=%s:%d", hostOf(job, head, 0), p.port)}
		}
	}
}

// ports returns the ports of the head, as in the Job's Service.
func (p *rayPlugin) ports() (ports []corev1.ServicePort) {
	for _, port := range []struct {
		name   string
		number int
	}{{"gcs", p.port}, {"dashboard", p.dashboardPort}, {"client-server", p.clientPort}} {
		ports = append(ports, corev1.ServicePort{
			Name: port.name, Port: int32(port.number), TargetPort: intstr.FromString(port.name), Protocol: corev1.ProtocolTCP,
		})
	}
	return ports
}

func openPort(pod *corev1.Pod, name string, port int) {
	for _, c := range containersOf(pod) {
		openPortOf(c, name, port)
	}
}

// openPortOf adds a port to a container that does not have it.
func openPortOf(c *corev1.Container, name string, port int) {
	for i := range c.Ports {
		if c.Ports[i].ContainerPort == int32(port) {
			return
		}
	}
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: int32(port)})
}
