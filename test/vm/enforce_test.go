package vm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// enforceRun is a run of TestEnforce or its variants.
type enforceRun struct{ *obeyRun }

func newEnforceRun(t *testing.T) *enforceRun { return &enforceRun{newObeyRun(t, newEnforcePod)} }

// start boots machines with this configuration of the runtime and more flags for their agents, and
// starts the schedulers.
func (r *enforceRun) start(runtime, flags string, shapes ...Shape) {
	r.t.Helper()
	r.files = map[string][]byte{"start.sh": []byte(runtimeFile(runtime) + r.boot)}
	r.agentFlags = "--authority=berth --debug" + flags
	for i, shape := range shapes {
		m := r.node(fmt.Sprintf("vm-%c", 'a'+i), shape, enforceSettings)
		r.machines = append(r.machines, m)
		r.shapes[m.Name] = r.reported(m.Name).Spec.Machine
	}
	r.berthScheduler()
	r.stockScheduler()
	r.follow()
}

// TestEnforce runs pods from a seed on two machines of different shape where Berth decides: CPU
// sets and CPU shares, init containers and sidecars, pods of another scheduler. Agent, containerd
// and kubelet are killed at random, and each machine reboots once. The test repeatedly compares the
// CPUs and memory nodes of every process with the Bindings.
func TestEnforce(t *testing.T) {
	requireVM(t, "enforce")
	r := newEnforceRun(t)
	r.reboots = 2
	r.start(validated, "", twoByTwo, oneByTwo)
	r.tell(r.play(), "enforce.json")
}

// TestEnforceOlderNRI does the same with a fifth of the pods, and an agent that treats the
// runtime's NRI as an older version.
func TestEnforceOlderNRI(t *testing.T) {
	requireVM(t, "enforce-older")
	r := newEnforceRun(t)
	r.count, r.reboots = max(1, r.count/5), 2
	r.start(validated, " --nri-version=v0.12.0", twoByTwo, oneByTwo)
	r.tell(r.play(), "enforce-older.json")
}

// TestEnforceUnvalidated prints how long containers differ from their decisions after a reboot if
// the runtime's validator is off. They start without the agent, which moves them when it runs. The
// agent starts after all of them, as can happen to an agent in a pod.
func TestEnforceUnvalidated(t *testing.T) {
	requireVM(t, "enforce-unvalidated")
	r := newEnforceRun(t)
	const pods = 4
	r.boot = fmt.Sprintf(lateAgent, pods)
	r.start(slow, "", oneByTwo)
	m := r.machines[0]
	for i := range pods {
		pod := pinnedPod(fmt.Sprint("p", i), 2)
		if i >= 2 {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}}
		}
		r.create(pod)
		r.running(pod.Name)
	}
	if _, err := m.Guest.Run(t.Context(), "touch /run/before; sync; (usleep 300000; reboot -f) >/dev/null 2>&1 &"); err != nil {
		t.Fatal(err)
	}
	var first, last, all time.Time // readings with a fault, and the first reading with every pod
	texts := map[string]bool{}
	r.eventually("all containers run where they were decided to, after a reboot", func(ctx context.Context) error {
		once, cancel := context.WithTimeout(ctx, lookLimit) // a machine that goes down may not answer
		defer cancel()
		if _, err := m.Guest.Run(once, "[ ! -e /run/before ]"); err != nil {
			return err
		}
		faults, found, err := r.look(ctx, m)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, p := range found {
			seen[p.group.UID] = true
		}
		now := time.Now()
		if !faults.Empty() {
			if first.IsZero() {
				first = now
			}
			last = now
			texts[fmt.Sprintf("%+v", faults)] = true
			return fmt.Errorf("%+v", faults)
		}
		if len(seen) < pods {
			return fmt.Errorf("%d pods have processes", len(seen))
		}
		if all.IsZero() {
			all = now
		}
		if now.Sub(all) < 5*time.Second {
			return errors.New("they have only just begun")
		}
		return nil
	})
	if first.IsZero() {
		t.Error("no container differed from its decision: nothing was measured")
	}
	fmt.Printf("without the validator, after a reboot: containers ran beside their decisions for %v (%d faults seen)\n", last.Sub(first).Round(100*time.Millisecond), len(texts))
	for text := range texts {
		fmt.Println(" ", text)
	}
}

// lateAgent makes the agent, from the second boot on, wait for that many containers.
const lateAgent = `
if [ -e /var/lib/booted ]; then
cat - /etc/berth/agent.sh > /tmp/agent.sh <<'END'
until (cd /run/containerd/io.containerd.runtime.v2.task/k8s.io; n=0
for i in $(grep -ls '"io.kubernetes.cri.container-type":"container"' */config.json); do [ -s ${i%%/*}/init.pid ] && n=$((n+1)); done
[ $n -ge %d ]); do usleep 200000; done
END
mv /tmp/agent.sh /etc/berth/agent.sh
fi
touch /var/lib/booted
`

// enforceResult is the last line.
type enforceResult struct {
	Seed           uint64 `json:"seed"`
	Pods           int    `json:"pods"`
	Running        int    `json:"running"`
	HeldTwice      int    `json:"heldTwice"`
	OutsideItsNUMA int    `json:"outsideItsNUMA"`
	Unconfined     int    `json:"unconfined"`
	Refused        int    `json:"refused"`
	Leftover       int    `json:"leftover"`
}

// newEnforcePod makes a pod with exclusive CPUs, a pod with shares, or a pod of another scheduler.
func newEnforcePod(rng *rand.Rand, i int) *corev1.Pod {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	kind := pick("own", "own", "own", "shares", "shares", "foreign")
	pod := pinnedPod(fmt.Sprint("p", i), 1+rng.IntN(4))
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Annotations = map[string]string{}
	main := &pod.Spec.Containers[0]
	if kind != "own" {
		main.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(pick("200m", "500m", "1500m")), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}}
	}
	if kind == "foreign" {
		pod.Spec.SchedulerName = stockName
		return pod
	}
	policy := pick("", "none", "best-effort", "restricted", "single-numa-node")
	if policy != "" {
		pod.Annotations["berth.dev/policy"] = policy + pick("", ",scope=pod")
	}
	if (policy == "restricted" || policy == "single-numa-node") && rng.IntN(2) == 0 {
		pod.Annotations["berth.dev/memory"] = "pinned"
	}
	if kind == "own" {
		if how := pick("", "", "full-cores,preferred", "spread,preferred"); how != "" {
			pod.Annotations["berth.dev/cpus"] = how
		}
		if rng.IntN(5) == 0 {
			pod.Annotations["berth.dev/exclusive"] = "core,preferred"
		}
	}
	if rng.IntN(3) == 0 {
		init := *main.DeepCopy()
		init.Name, init.Command = "i", []string{"/bin/sh", "-c", "sleep 1"}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if rng.IntN(3) == 0 {
		sidecar, always := *main.DeepCopy(), corev1.ContainerRestartPolicyAlways
		sidecar.Name, sidecar.RestartPolicy = "s", &always
		if kind == "own" {
			setBoth(&sidecar.Resources, corev1.ResourceCPU, *resource.NewQuantity(1, resource.DecimalSI))
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	}
	return pod
}

// tell prints the last line, saves it in a file, and fails the test if a count is wrong.
func (r *enforceRun) tell(wrong, file string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := ""
	if !r.faults.Empty() || len(r.refused)+r.leftover > 0 {
		faults = fmt.Sprintf("faults %+v\nrefused %v\nleft over %d", r.faults, r.refused, r.leftover)
	}
	r.obeyRun.tell(wrong, faults, enforceResult{Seed: r.seed, Pods: r.count, Running: len(r.ran), HeldTwice: len(r.faults.HeldTwice),
		OutsideItsNUMA: len(r.faults.Outside), Unconfined: len(r.faults.Unconfined), Refused: len(r.refused), Leftover: r.leftover}, file)
}
