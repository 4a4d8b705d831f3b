package cli

import (
	"strings"
	"testing"
)

// TestPastedInputs: a machine and a kubelet may be given in several common forms. If a form has too
// little data, the error names it.
func TestPastedInputs(t *testing.T) {
	in := newInputs(t)
	pod := in.pod("a", `{limits: {cpu: "2", memory: 1Gi}}`)
	const machine = "package:1 numa:1 core:4 pu:2 mem:32Gi"
	conf := strings.Replace(staticCPUs, "0,8", "0", 1)
	for name, c := range map[string]struct {
		file, flags string
	}{
		"a KubeletConfiguration": {conf, ""},
		"a ConfigMap":            {"apiVersion: v1\nkind: ConfigMap\ndata:\n  kubelet: |\n    " + strings.ReplaceAll(conf, "\n", "\n    "), ""},
		"an answer":              {`{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"}}`, ""},
		"flags":                  {`KUBELET_EXTRA_ARGS="--cpu-manager-policy=static --reserved-cpus=0"`, ""},
		"flags over a file":      {strings.Replace(conf, `"0"`, `"1"`, 1), "--config=/x --reserved-cpus=0"},
	} {
		file := in.file("kubelet", c.file)
		args := []string{"explain", "-f", pod, "--node", machine, "--kubelet-config", file}
		if c.flags != "" {
			args = append(args, "--kubelet-flags", c.flags)
		}
		if code, stdout, stderr := run(t, args...); code != ExitOK || !strings.Contains(stdout, "0      1,5 ") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
	expect(t, ExitOK, "0      1,5 ", "place", "-f", pod, machine, "--kubelet-flags", "--cpu-manager-policy=static --reserved-cpus=0")
	expect(t, ExitOK, "0      1,5 ", "place", "-f", pod, machine, "--kubelet-flags", in.file("flags.env", "KUBELET_EXTRA_ARGS=--cpu-manager-policy=static\nOTHER_ARGS='--reserved-cpus=0'"))
	expect(t, ExitFailure, `--reserved-cpu: "0": want a flag of the kubelet (did you mean "reserved-cpus"?)`, "place", "-f", pod, machine, "--kubelet-flags", "--reserved-cpu=0")
	expect(t, ExitFailure, `reservedCpus: "0": want a known field (did you mean "reservedSystemCPUs"?)`, "place", "-f", pod, machine, "--kubelet-config", in.file("misspelt", kubeletHead+"reservedCpus: \"0\"\n"))

	rows := in.file("lscpu.txt", "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n2,0,0,0,,0,0,0,0\n3,1,0,0,,1,1,1,0\n")
	expect(t, ExitOK, "0      1,3 ", "place", "-f", pod, rows, "--kubelet-flags", "--cpu-manager-policy=static --reserved-cpus=0")
	numactl := in.file("numactl.txt", "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 5 MB\n")
	for _, args := range [][]string{{"topology", numactl}, {"topology", "--lscpu", numactl}, {"topology", "--root", numactl}, {"place", "-f", pod, "--node", numactl}} {
		expect(t, ExitFailure, "this is the output of numactl -H, which does not show which CPUs share a core", args...)
	}
	expect(t, ExitFailure, "this is the output of numactl -H: want a KubeletConfiguration", "place", "-f", pod, machine, "--kubelet-config", numactl)
}
