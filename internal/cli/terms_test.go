package cli

import (
	"strings"
	"testing"
)

// TestTermsNameTheirFlags: a value that the scheduler's configuration would refuse is refused, and
// the error names the flag.
func TestTermsNameTheirFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--keep=gpus":                          `--keep: "gpus": want cpusNearDevices, or nothing`,
		"--keep=cpusNearDevices":               "--keep: cpusNearDevices: want cpusPerDevice as well",
		"--cpus-per-device=nvidia.com/gpu=8":   "--cpus-per-device: want keep: cpusNearDevices as well",
		"--snapshot=x --keep=cpusNearDevices":  "because the file has the scheduler's configuration",
		"--snapshot=x --best-effort-anywhere":  "want none of --keep, --cpus-per-device, --exclusive-namespaces, --best-effort-anywhere, --claims, --numa-attributes and --stale-after",
		"--snapshot=x --stale-after=30s":       "--claims, --numa-attributes and --stale-after",
		"--exclusive-namespaces=No_Namespace":  `--exclusive-namespaces: "No_Namespace": want the name of a namespace, or *`,
		"--claims=far":                         `--claims: "far": want near or required, or nothing`,
		"--numa-attributes=numa":               `--numa-attributes: "numa": want an attribute with its domain, such as gpu.example.com/numaNode`,
		"--snapshot=x --numa-attributes=a.b/c": "because the file has the scheduler's configuration",
		"--snapshot=x --claims=near":           "because the file has the scheduler's configuration",
		"--stale-after=-1s":                    "--stale-after -1s: want more than 0, like 1m",
	} {
		if code, _, stderr := run(t, append([]string{"nodes"}, strings.Fields(args)...)...); code != ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
