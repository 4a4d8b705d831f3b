package hollow

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestSandboxStatusComesFirst: a goroutine that begins before StartContainer is called, like the
// kubelet's goroutine for a ready sandbox, finishes before the container runs.
func TestSandboxStatusComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRuntime(0)
		id, err := r.CreateContainer(t.Context(), "sandbox", &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{}}, &runtimeapi.PodSandboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		var written atomic.Bool
		go written.Store(true)
		if err := r.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if !written.Load() {
			t.Error("the container runs before the goroutine has finished")
		}
	})
}
