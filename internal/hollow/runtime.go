package hollow

import (
	"context"
	"strconv"
	"strings"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
)

// exitImage is the repository of images whose containers end by themselves. The tag is the running
// time. If the exit code is not 0, "_" and the code follow: "berth.dev/exit:3s_1".
const exitImage = "berth.dev/exit"

// ExitImage returns the image of a container that exits with code 0 after d. Containers of other
// repositories run until the kubelet stops them.
func ExitImage(d time.Duration) string { return exitImage + ":" + d.String() }

// FailImage returns the image of a container that exits with the code, from 0 to 255, after d.
func FailImage(d time.Duration, code uint8) string {
	return ExitImage(d) + "_" + strconv.Itoa(int(code))
}

// exitAfter returns the time after which a container of the image exits, and its exit code. `ok` is
// false if the container runs until the kubelet stops it.
func exitAfter(image string) (d time.Duration, code int32, ok bool) {
	tag, ok := strings.CutPrefix(image, exitImage+":")
	if !ok {
		return 0, 0, false
	}
	after, exit, fails := strings.Cut(tag, "_")
	d, err := time.ParseDuration(after)
	if fails && err == nil {
		var n uint64
		n, err = strconv.ParseUint(exit, 10, 8)
		code = int32(n)
	}
	return d, code, err == nil
}

// fakeRuntime extends cri-api's fake runtime with containers that end. The kubelet calls it
// directly, without a socket.
type fakeRuntime struct {
	*critest.FakeRuntimeService
	stopTime time.Duration
	// exited is called when a container has ended by itself. It may be nil.
	exited func(id string)
}

var _ internalapi.RuntimeService = &fakeRuntime{}

func newFakeRuntime(stopTime time.Duration) *fakeRuntime {
	r := &fakeRuntime{FakeRuntimeService: critest.NewFakeRuntimeService(), stopTime: stopTime}
	r.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}
	return r
}

// startTime is the time that a container takes to start. Real containers take longer. When a
// sandbox is ready, a goroutine of the kubelet reads the pod's status and writes it back with one
// more condition (Kubelet.OnPodSandboxReady in pkg/kubelet/kubelet.go). If containers started at
// once, the goroutine could overwrite a newer status of the pod. The pod would then stay
// ContainerCreating for 60 to 90 s, until the kubelet checks it again.
const startTime = 10 * time.Millisecond

// StartContainer starts the container. A container of exitImage ends when its running time is over.
func (r *fakeRuntime) StartContainer(ctx context.Context, id string) error {
	select {
	case <-time.After(startTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	r.Lock()
	defer r.Unlock()
	r.Called = nil // otherwise the fake runtime's list of calls would grow as long as the node runs
	if c := r.Containers[id]; c != nil {
		if d, code, ok := exitAfter(c.Image.GetUserSpecifiedImage()); ok {
			time.AfterFunc(d, func() { r.exit(id, code) })
		}
	}
	return nil
}

// StopContainer takes the time stopTime. If the grace period is shorter, it takes the grace period,
// but at least a tenth of stopTime. In a real runtime, the signal, the exit and the cleanup take
// this time.
func (r *fakeRuntime) StopContainer(ctx context.Context, id string, grace int64) error {
	d := min(r.stopTime, time.Duration(grace)*time.Second)
	select {
	case <-time.After(max(d, r.stopTime/10)):
		return r.FakeRuntimeService.StopContainer(ctx, id, grace)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exit ends a container as if its process had exited. If the container still ran, exit calls
// r.exited.
func (r *fakeRuntime) exit(id string, code int32) {
	if r.end(id, code) && r.exited != nil {
		r.exited(id)
	}
}

// end marks a container as ended. It reports whether the container still ran.
func (r *fakeRuntime) end(id string, code int32) bool {
	r.Lock()
	defer r.Unlock()
	c := r.Containers[id]
	if c == nil || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return false
	}
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.FinishedAt = time.Now().UnixNano()
	c.ExitCode, c.Reason = code, "Completed"
	if code != 0 {
		c.Reason = "Error"
	}
	return true
}
