package hollow

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestWhatIsSaidOfASandboxComesFirst: the kubelet's goroutine for a ready sandbox finishes before a
// container of the sandbox runs.
func TestWhatIsSaidOfASandboxComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRuntime(0)
		id, err := r.CreateContainer(t.Context(), "sandbox", &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{}}, &runtimeapi.PodSandboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		var said atomic.Bool
		go said.Store(true)
		if err := r.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if !said.Load() {
			t.Error("the container runs, and nothing has been said of its sandbox")
		}
	})
}
