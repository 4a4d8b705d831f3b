package amounts

import (
	"strings"
	"testing"
)

func TestMeant(t *testing.T) {
	for resource, want := range map[string]string{
		"nvidia.com/gpus": ` (did you mean "nvidia.com/gpu"?)`, "nvidia.com/gpu": "", "example.com/fpga": "", "amd.com/gpu": "",
		"example.com/foos": ` (did you mean "example.com/foo"?)`,
	} {
		if got := Meant(resource, "example.com/foo"); got != want {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}
	}
	short := Shortage{Resource: "nvidia.com/gpus", Requested: 1}
	if !strings.HasSuffix(short.Text(), `, but the pod asks for 1 (did you mean "nvidia.com/gpu"?)`) {
		t.Error(short.Text())
	}
}
