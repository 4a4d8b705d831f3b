package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

const (
	// These have 16 CPUs on 4 NUMA nodes; a has one core.
	goodCPU = `{"policyName":"static","defaultCpuSet":"0-1,4-31","entries":{"a":{"main":"2-3"}},"checksum":0}`
	lostCPU = `{"policyName":"static","defaultCpuSet":"0-1,5-31","entries":{"a":{"main":"2-3"}},"checksum":0}`
)

// topologyFile writes a NodeTopology, changed by spoil.
func topologyFile(t *testing.T, spoil func(*v1alpha1.NodeTopology)) string {
	t.Helper()
	m := shapes.Machine("numa:2 core:2 pu:1 mem:1Gi")
	nt, err := wire.WriteNodeTopology(&wire.Node{
		Name: "n1",
		Spec: wire.NodeSpec{Machine: m, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
			Config: placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0"}},
		Report: wire.Report{Sequence: 7, Snapshot: placement.Snapshot{SharedCPUs: m.Online},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	spoil(nt)
	data, err := json.Marshal(nt)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "n1.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// listFile writes a list in the format of kubectl get -o yaml.
func listFile(t *testing.T, items string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: List\n"+items+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	against := []string{"--node", twoByTwo, "--kubelet-config", config}
	asIs := func(*v1alpha1.NodeTopology) {}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in stdout, or in stderr if there is a usage error or nothing can be checked
	}{
		{"directory", []string{stateDir(t, goodCPU)}, ExitOK, "policy static, 1 container with exclusive CPUs"},
		{"file", []string{filepath.Join(stateDir(t, goodCPU), "cpu_manager_state")}, ExitOK, "no checksum"},
		{"file as JSON", []string{filepath.Join(stateDir(t, goodCPU), "cpu_manager_state"), "-o", "json"}, ExitOK, `"sound": true`},
		{"a template", []string{filepath.Join(stateDir(t, goodCPU), "cpu_manager_state"), "-o", "jsonpath={.items[0].sound}"}, ExitOK, "true"},
		{"against the machine", append([]string{stateDir(t, goodCPU)}, against...), ExitOK, "agrees with the machine"},
		{"lost CPU", append([]string{stateDir(t, lostCPU)}, against...), ExitFailure, "the file lacks CPUs 4"},
		{"another policy", append([]string{stateDir(t, `{"policyName":"none","defaultCpuSet":"","checksum":0}`)}, against...), ExitFailure, `configured policy "static" differs from state checkpoint policy "none"`},
		{"a file of another policy", []string{filepath.Join(stateDir(t, goodCPU), "cpu_manager_state"), "--node", twoByTwo}, ExitFailure, `configured policy "none" differs from state checkpoint policy "static"`},
		{"what to do", append([]string{stateDir(t, `{"policyName":"none","defaultCpuSet":"","checksum":0}`)}, against...), ExitFailure, "drain the node, stop the kubelet, delete /var/lib/kubelet/cpu_manager_state, start the kubelet"},
		{"a reserved CPU held", append([]string{stateDir(t, `{"policyName":"static","defaultCpuSet":"1-31","entries":{"a":{"main":"0"}},"checksum":0}`)}, against...), ExitFailure, "not all reserved cpus"},
		{"OpenShift's workload partitioning", append([]string{stateDir(t, `{"policyName":"static","defaultCpuSet":"1-31","checksum":0}`)}, against...), ExitFailure,
			"not all reserved cpus: \"0\" are present in defaultCpuSet: \"1-31\" (with OpenShift's workload partitioning the file is right"},
		{"nothing shared", append([]string{stateDir(t, `{"policyName":"static","defaultCpuSet":"","entries":{"a":{"main":"0-31"}},"checksum":0}`)}, against...), ExitFailure, "default cpuset cannot be empty"},
		{"an init container's CPUs", append([]string{stateDir(t, `{"policyName":"static","defaultCpuSet":"0-1,4-31","entries":{"a":{"init":"2","main":"2-3"}},"checksum":0}`)}, against...), ExitOK, "pods that hold resources: 1; the state agrees"},
		{"a CPU of two pods", append([]string{stateDir(t, `{"policyName":"static","defaultCpuSet":"0-1,4-31","entries":{"a":{"main":"2-3"},"b":{"main":"3"}},"checksum":0}`)}, against...), ExitFailure, "CPUs that no other pod holds"},
		{"wrong checksum", []string{stateDir(t, strings.Replace(goodCPU, `"checksum":0`, `"checksum":1`, 1))}, ExitFailure, "checksum does not match"},
		{"CPU twice", []string{stateDir(t, strings.Replace(goodCPU, "0-1,4", "0-1,3", 1))}, ExitFailure, "entries[a][main]"},
		{"truncated", []string{stateDir(t, goodCPU[:40])}, ExitFailure, "unexpected EOF"},
		{"object", []string{topologyFile(t, asIs)}, ExitOK, "report 7, 0 pods, shared 0-3"},
		{"contradictory object", []string{topologyFile(t, func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "0-9" })}, ExitFailure, "status.sharedCPUs"},
		{"incomplete object", []string{topologyFile(t, func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "0-2" })}, ExitFailure, "sharedCPUs"},
		{"object that is not ready", []string{topologyFile(t, func(nt *v1alpha1.NodeTopology) { nt.Status.Conditions = nil })}, ExitFailure, "the condition Ready of the NodeTopology is not True: NotReported"},
		{"object that no scheduler places on", []string{topologyFile(t, func(nt *v1alpha1.NodeTopology) { nt.Spec.Authority = v1alpha1.AuthorityBerth })}, ExitFailure, "Berth and the kubelet would both assign CPUs"},
		{"object that means to move the cursor", []string{topologyFile(t, func(nt *v1alpha1.NodeTopology) {
			nt.Status.Conditions[0].Status, nt.Status.Conditions[0].Message = metav1.ConditionFalse, "\x1b[2Jtwo\nlines"
		})}, ExitFailure, "?[2Jtwo lines"},
		{"no objects", []string{listFile(t, "items: []")}, ExitFailure, "no items"},
		{"other objects", []string{listFile(t, "items: [{kind: Pod, apiVersion: v1}]")}, ExitFailure, `kind "Pod"`},
		{"after a prompt", []string{checkedFile(t, "$ cat cpu_manager_state\n"+goodCPU)}, ExitFailure, "want an object; line 1 is a command after a prompt"},
		{"gzip", []string{checkedFile(t, "\x1f\x8b\x08\x00")}, ExitFailure, "it is compressed with gzip: decompress it first"},
		{"UTF-16", []string{checkedFile(t, "\xff\xfe{\x00")}, ExitFailure, "the text is in UTF-16"},
		{"a byte order mark", []string{checkedFile(t, "\ufeff"+goodCPU)}, ExitFailure, "it begins with a byte order mark"},
		{"nothing there", []string{t.TempDir()}, ExitFailure, "at least one of the files cpu_manager_state"},
		{"no such file", []string{"/nonexistent"}, ExitFailure, "/nonexistent"},
		{"something else", []string{config}, ExitFailure, `kind "KubeletConfiguration"`},
		{"a configuration without a machine", []string{stateDir(t, lostCPU), "--kubelet-config", config}, ExitUsage, "want --node too"},
		{"no argument", []string{}, ExitUsage, "want a kubelet's root directory"},
		{"format", []string{"-o", "xml", t.TempDir()}, ExitUsage, "xml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs strings.Builder
			cmd := NewCheckCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(c.args)
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			code := ExitOK
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				code = ExitFailure
				if usage := (*UsageError)(nil); errors.As(err, &usage) {
					code = ExitUsage
				}
				errs.WriteString(err.Error())
			}
			if code != c.code || !strings.Contains(out.String()+errs.String(), c.want) {
				t.Errorf("exit code %d, stdout\n%s\nstderr %s\nwant code %d and %q", code, out.String(), errs.String(), c.code, c.want)
			}
		})
	}
}

// TestCheckReadsAgain: the state between two writes of a kubelet is not reported, but a state that
// stays is.
func TestCheckReadsAgain(t *testing.T) {
	dir := stateDir(t, goodCPU)
	path := filepath.Join(dir, "cpu_manager_state")
	twice := strings.Replace(goodCPU, "0-1,4", "0-1,3", 1)
	for _, tc := range []struct {
		name   string
		states []string // the last state stays
		looks  int
		sound  bool
	}{
		{"sound at once", []string{goodCPU}, 1, true},
		{"between two writes", []string{twice, goodCPU}, 2, true},
		{"between two writes of two admissions", []string{twice, goodCPU[:40], goodCPU}, 3, true},
		{"not sound", []string{twice}, kubeletstate.SameLooks, false},
		{"another fault each time, then one that stays", []string{twice, goodCPU[:40], twice}, 2 + kubeletstate.SameLooks, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen := 0
			next := func() {
				if err := os.WriteFile(path, []byte(tc.states[min(seen, len(tc.states)-1)]), 0o600); err != nil {
					t.Fatal(err)
				}
				seen++
			}
			c := checker{pause: next}
			next()
			if err := c.patiently(dir); err != nil {
				t.Fatal(err)
			}
			if seen != tc.looks || len(c.found) != 1 || allSound(c.found) != tc.sound {
				t.Errorf("%d looks, found %+v; want %d looks, sound %t", seen, c.found, tc.looks, tc.sound)
			}
		})
	}
}

// checkedFile writes a text to a file whose name does not show its kind.
func checkedFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
