package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneByTwo is the second shape: one socket, 2 NUMA nodes, no SMT.
var oneByTwo = Shape{Sockets: 1, DiesPerSocket: 2, CoresPerDie: 4, ThreadsPerCore: 1, MemoryMiB: 1024, Near: 11, Far: 20}

// staticMemory reserves what the Static policy demands: exactly kubeReserved + systemReserved + the
// hard eviction threshold.
const staticMemory = `memoryManagerPolicy: Static
systemReserved: {memory: 150Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]
`

// policyCase is a configuration with a suitable load.
type policyCase struct {
	name     string
	settings KubeletSettings
	load     load
}

func (p policyCase) String() string { return p.name }

// policyCases are the configurations of the policies part: each policy and scope.
var policyCases = []policyCase{
	{"restricted", restricted, load{maxCPUs: 7}},
	{"single-numa-node", "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nreservedSystemCPUs: \"0\"\n", load{maxCPUs: 4}},
	{"single-numa-node, pod scope", "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\nreservedSystemCPUs: \"1\"\n", load{maxCPUs: 4}},
	{"best-effort", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\n", load{maxCPUs: 7}},
	{"none", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n", load{maxCPUs: 7}},
}

// optionCases are the configurations of the options part: options of the managers, and pinned
// memory.
var optionCases = []policyCase{
	{"restricted, full-pcpus-only", restricted + "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n", load{maxCPUs: 5}}, // half a core fits only on the machine without SMT
	{"best-effort, distribute-cpus-across-numa", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\ncpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}\n", load{maxCPUs: 7}},
	{"restricted, strict-cpu-reservation, prefer-closest", restricted + "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: \"true\"}\n", load{maxCPUs: 7}},
	{"best-effort, uncore", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\ncpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: \"true\"}\n", load{maxCPUs: 5}},
	{"restricted, Static memory", restricted + staticMemory, load{maxCPUs: 4, memory: true}},
	{"best-effort, Static memory, huge pages", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\n" + staticMemory, load{maxCPUs: 4, memory: true, hugepages: true}},
}

// casesVar is the environment variable with a regular expression of configurations to run. Without
// it all run.
const casesVar = "E2E_CASES"

// chosen returns the configurations to run. Their loads have seed and the following seeds.
func chosen(t *testing.T, cases []policyCase, seed int) []policyCase {
	t.Helper()
	only, err := regexp.Compile(os.Getenv(casesVar))
	if err != nil {
		t.Fatalf("%s: %v", casesVar, err)
	}
	var out []policyCase
	for i, pc := range cases {
		pc.load.rounds, pc.load.perRound, pc.load.seed = 2, 6, uint64(seed+i)
		if only.MatchString(pc.name) {
			out = append(out, pc)
		}
	}
	if out == nil {
		t.Fatalf("%s=%s matches none of the configurations, which are %q", casesVar, only, cases)
	}
	return out
}

// TestPolicies runs a load with churn under every configuration on two machines of different shape:
// first under Berth, without any refusal or wrong prediction, then under the stock scheduler, for
// comparison.
func TestPolicies(t *testing.T) {
	requireVM(t, "policies")
	playUnder(t, chosen(t, policyCases, 0))
}

// TestOptions does the same under the options of the managers.
func TestOptions(t *testing.T) {
	requireVM(t, "options")
	playUnder(t, chosen(t, optionCases, len(policyCases)))
}

// playUnder boots the machines once. Between configurations their kubelets restart without the
// earlier checkpoints.
func playUnder(t *testing.T, cases []policyCase) {
	t.Helper()
	c := newCluster(t)
	c.kernelArgs = "hugepagesz=2M hugepages=64"
	machines := c.nodes(cases[0].settings)
	c.berthScheduler()
	c.stockScheduler()
	fmt.Print(policyHead)
	total := policyResult{name: "total"}
	for i, pc := range cases {
		began := time.Now()
		if i > 0 {
			c.reconfigure(pc.settings, machines...)
		}
		ready := time.Now()
		r := policyResult{name: pc.name, ours: c.play(pc.load, machines...)}
		played := time.Now()
		pc.load.scheduler = stockName
		r.stock, r.took = c.play(pc.load, machines...), time.Since(began)
		t.Logf("%s: reconfigured in %.0f s, under Berth %.0f s, under kube-scheduler %.0f s", pc.name,
			ready.Sub(began).Seconds(), played.Sub(ready).Seconds(), time.Since(played).Seconds())
		fmt.Print(r)
		if r.ours.refusals() > 0 || r.ours.Wrong > 0 {
			t.Errorf("%s under Berth: %v", pc.name, r.ours)
		}
		total.add(r)
	}
	fmt.Print(total)
	if total.ours.Exact == 0 {
		t.Error("no decision was exact: nothing was compared")
	}
	if os.Getenv(casesVar) == "" && total.stock.refusals() == 0 {
		t.Error("the stock scheduler was never refused: the loads are too easy to prove anything")
	}
}

// nodes boots one machine of each shape.
func (c *cluster) nodes(settings KubeletSettings) []*Machine {
	c.t.Helper()
	machines := []*Machine{c.node("vm-a", twoByTwo, settings), c.node("vm-b", oneByTwo, settings)}
	for _, m := range machines {
		c.reported(m.Name)
	}
	return machines
}

// reconfigure gives the kubelets another configuration, as an administrator does: it drains the
// nodes, stops the kubelets, and removes the checkpoints of the old policies.
func (c *cluster) reconfigure(settings KubeletSettings, machines ...*Machine) {
	c.t.Helper()
	script := `touch /run/kubelet-hold
killall kubelet; while pidof kubelet >/dev/null; do usleep 100000; done
rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
cat > /etc/berth/kubelet.yaml <<'END'
` + kubeletBase + string(settings) + `END
rm -f /run/kubelet-hold`
	before := map[string]string{}
	var all errgroup.Group
	for _, m := range machines {
		before[m.Name] = fmt.Sprint(c.reported(m.Name).Spec.Config)
		all.Go(func() error {
			_, err := m.Guest.Run(c.t.Context(), script)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		c.t.Fatal(err)
	}
	for _, m := range machines {
		c.eventually("the report of "+m.Name+" follows the new configuration", func(ctx context.Context) error {
			if fmt.Sprint(c.reported(m.Name).Spec.Config) == before[m.Name] {
				return errors.New("the report still has the old one")
			}
			return c.ready(ctx, m.Name)
		})
	}
	pods, err := c.Client.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		c.t.Fatalf("%d pods are left over, error %v", len(pods.Items), err)
	}
}
