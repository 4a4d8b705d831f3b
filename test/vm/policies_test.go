package vm

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneByTwo is the second shape: one socket, 2 NUMA nodes, no SMT.
var oneByTwo = Shape{Sockets: 1, DiesPerSocket: 2, CoresPerDie: 4, ThreadsPerCore: 1, MemoryMiB: 1024, Near: 11, Far: 20}

// staticMemory reserves what the Static policy demands: exactly kubeReserved + systemReserved + the hard eviction threshold.
const staticMemory = `memoryManagerPolicy: Static
systemReserved: {memory: 150Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]
`

// policyCases are the configurations of the policies part, each with a load that suits it.
var policyCases = []struct {
	name     string
	settings KubeletSettings
	load     load
}{
	{"restricted", restricted, load{maxCPUs: 6}},
	{"single-numa-node", "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nreservedSystemCPUs: \"0\"\n", load{maxCPUs: 4}},
	{"single-numa-node, pod scope", "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\nreservedSystemCPUs: \"1\"\n", load{maxCPUs: 4}},
	{"best-effort", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\n", load{maxCPUs: 6}},
	{"none", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n", load{maxCPUs: 6}},
	{"restricted, full-pcpus-only", restricted + "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n", load{maxCPUs: 6, multiple: 2}},
	{"best-effort, distribute-cpus-across-numa", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\ncpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}\n", load{maxCPUs: 6}},
	{"restricted, strict-cpu-reservation, prefer-closest", restricted + "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: \"true\"}\n", load{maxCPUs: 6}},
	{"best-effort, uncore", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\ncpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: \"true\"}\n", load{maxCPUs: 5}},
	{"restricted, Static memory", restricted + staticMemory, load{maxCPUs: 4, memory: true}},
	{"best-effort, Static memory, huge pages", "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\nreservedSystemCPUs: \"0\"\n" + staticMemory, load{maxCPUs: 4, memory: true, hugepages: true}},
}

// TestPolicies plays a load with churn under every configuration on two machines of different shape: first under Berth,
// which may not be refused or contradicted once, then under the stock scheduler, for comparison.
func TestPolicies(t *testing.T) {
	requireVM(t, "policies")
	c := newCluster(t)
	c.kernelArgs = "hugepagesz=2M hugepages=64"
	big := c.node("vm-a", twoByTwo, policyCases[0].settings)
	small := c.node("vm-b", oneByTwo, policyCases[0].settings)
	c.reported(big.Name)
	c.reported(small.Name)
	refusedByStock := 0
	for i, pc := range policyCases {
		pc.load.rounds, pc.load.perRound, pc.load.seed = 2, 7, uint64(i)
		pc.load.multiple = max(1, pc.load.multiple)
		if i > 0 {
			c.reconfigure(pc.settings, big, small)
		}
		stop := c.berthScheduler()
		ours := c.play(pc.load, big, small)
		stop()
		fmt.Printf("%-52s Berth: %v\n", pc.name, ours)
		if len(ours.Refused) > 0 || ours.Wrong > 0 {
			t.Errorf("%s: %v", pc.name, ours)
		}
		stop = c.stockScheduler()
		stock := c.play(pc.load, big, small)
		stop()
		fmt.Printf("%-52s stock: %v\n", "", stock)
		for _, n := range stock.Refused {
			refusedByStock += n
		}
	}
	if refusedByStock == 0 {
		t.Error("the stock scheduler was never refused: the loads are too easy to prove anything")
	}
}

// reconfigure gives the kubelets another configuration, as an administrator does: drained, stopped, without the checkpoints of
// the old policies.
func (c *cluster) reconfigure(settings KubeletSettings, machines ...*Machine) {
	c.t.Helper()
	for _, m := range machines {
		before := c.reported(m.Name).Spec.Config
		script := `touch /run/kubelet-hold
killall kubelet; while pidof kubelet >/dev/null; do usleep 100000; done
rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
cat > /etc/berth/kubelet.yaml <<'END'
` + kubeletBase + string(settings) + `END
rm -f /run/kubelet-hold`
		if _, err := m.Guest.Run(c.t.Context(), script); err != nil {
			c.t.Fatal(err)
		}
		c.eventually("the report of "+m.Name+" follows the new configuration", func(ctx context.Context) error {
			now := c.reported(m.Name).Spec.Config
			if fmt.Sprint(now) == fmt.Sprint(before) {
				return errors.New("the report still has the old one")
			}
			return c.ready(ctx, m.Name)
		})
	}
	pods, err := c.client.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		c.t.Fatalf("%d pods are left over, error %v", len(pods.Items), err)
	}
}
