package steer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
)

// drops deletes the claim, and waits until the plugin's cache has seen it.
func (w *world) drops(name string) {
	w.Helper()
	if err := w.client.ResourceV1().ResourceClaims("ns").Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until("the claim is gone", func() bool {
		_, err := w.handle.SharedDRAManager().ResourceClaims().Get("ns", name)
		return err != nil
	})
}

// makes creates a claim, and waits until the plugin's cache has it.
func (w *world) makes(c *resourceapi.ResourceClaim) {
	w.Helper()
	if _, err := w.client.ResourceV1().ResourceClaims("ns").Create(w.ctx, c, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until("the claim is there", func() bool {
		has, err := w.handle.SharedDRAManager().ResourceClaims().Get("ns", c.Name)
		return err == nil && has.UID == c.UID
	})
}

// unplugs deletes the driver's slice, and waits until the plugin's cache has seen it.
func (w *world) unplugs() {
	w.Helper()
	if err := w.client.ResourceV1().ResourceSlices().Delete(w.ctx, "slice", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until("the slice is gone", func() bool {
		list, err := w.handle.SharedDRAManager().ResourceSlices().ListWithDeviceTaintRules()
		return err == nil && len(list) == 0
	})
}

// inFlight returns the number of devices that Reserve has allocated. A fake API server does not
// count versions, so that the plugin's cache never has the writes of PreBind.
func (w *world) inFlight() int {
	w.Helper()
	list, err := w.handle.SharedDRAManager().ResourceClaims().ListAllAllocatedDevices()
	if err != nil {
		w.Fatal(err)
	}
	return len(list)
}

// TestAClaimDeletedInPreBind: the error names the claim, nothing stays allocated, and the pod is
// placed when its claim exists again.
func TestAClaimDeletedInPreBind(t *testing.T) {
	t.Parallel()
	for _, mode := range []claims.Mode{near, required} {
		for name, c := range map[string]struct{ names, kept []string }{
			"the only one":        {[]string{"c"}, nil},
			"the first of two":    {[]string{"c", "e"}, []string{"e"}},
			"the second of two":   {[]string{"e", "c"}, []string{"e"}},
			"the pod goes, as it": {[]string{"e", "c"}, []string{"e"}},
		} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				pod := podWith(c.names...)
				objects := []runtime.Object{sliceOf(gpu("d0", 0), gpu("d1", 1), gpu("d2", 1)), pod}
				for _, name := range c.names {
					objects = append(objects, claim(name, "r"))
				}
				w := newWorld(t, mode, at(1), objects...)
				w.berth.decided = Lying{"main": set(1)}
				state, status := w.place(pod)
				w.want("reserved", status, "")
				if got := w.inFlight(); got != len(c.names) {
					t.Errorf("reserved: %d devices", got)
				}
				w.drops("c")
				status = w.PreBind(w.ctx, state, pod, node)
				w.want("deleted", status, `claim ns/c: resourceclaims.resource.k8s.io "c" not found`)
				if status.Code() != fwk.Error { // the queue tries the pod again after its backoff
					t.Errorf("deleted: %v, want an error", status.Code())
				}
				if name == "the pod goes, as it" {
					if err := w.client.CoreV1().Pods("ns").Delete(w.ctx, "p", metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
					w.berth.doubt = true
				}
				w.Unreserve(w.ctx, state, pod, node)
				if got := w.inFlight(); got != 0 {
					t.Errorf("given back: %d devices are held", got)
				}
				for _, name := range c.kept {
					if got := w.stored(name); got != "none, 0" {
						t.Errorf("claim %s has %s", name, got)
					}
				}
				if status := w.PreEnqueue(w.ctx, pod); status.Code() != fwk.UnschedulableAndUnresolvable {
					t.Errorf("without its claim the pod is queued: %v", status)
				}
				again := claim("c", "r")
				again.UID = "again"
				w.makes(again)
				w.want("queued again", w.PreEnqueue(w.ctx, pod), "")
				state, status = w.place(pod)
				w.want("reserved again", status, "")
				w.want("written", w.PreBind(w.ctx, state, pod, node), "")
				if err := w.Check(w.ctx, state, pod, node); err != nil {
					t.Error(err)
				}
				for _, name := range c.names {
					if got := w.stored(name); got != "d1, 1" && got != "d2, 1" {
						t.Errorf("again, claim %s has %s", name, got)
					}
				}
			})
		}
	}
}

// TestAClaimOfTheSameName: a user deletes the claim and creates another one. DynamicResources
// writes the allocation into the new one, so that Unreserve deallocates that one.
func TestAClaimOfTheSameName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		again  *resourceapi.ResourceClaim
		why    string
		stored string
	}{
		"it has no devices":       {claim("c", "r"), "", "none, 0"},
		"another pod has its own": {allocatedTo(claim("c", "r"), "d2", "other"), "got allocated elsewhere", "d2, 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podWith("c")
			w := newWorld(t, required, at(1), sliceOf(gpu("d0", 0), gpu("d1", 1), gpu("d2", 1)), claim("c", "r"), pod)
			w.berth.decided = Lying{"main": set(1)}
			state, status := w.place(pod)
			w.want("reserved", status, "")
			w.drops("c")
			c.again.UID = "again"
			w.makes(c.again)
			w.client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
				sent := a.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
				if sent.UID != c.again.UID { // the API server compares it, but the fake one does not
					return true, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), sent.Name, nil)
				}
				return false, nil, nil
			})
			w.want(name, w.PreBind(w.ctx, state, pod, node), c.why)
			w.Unreserve(w.ctx, state, pod, node)
			if got := w.stored("c"); got != c.stored {
				t.Errorf("the claim has %s, want %s", got, c.stored)
			}
		})
	}
}

// TestADriverThatVanishes after the pod was filtered: the Binding continues, as without Berth, and
// the devices are deallocated if it fails. The pod's next attempt does not find them.
func TestADriverThatVanishes(t *testing.T) {
	t.Parallel()
	const filtered, reserved, written = 0, 1, 2 // what has been done before
	for _, mode := range []claims.Mode{near, required} {
		for after, what := range []string{"before Reserve", "before PreBind", "before Bind"} {
			for kind, pod := range map[string]*corev1.Pod{"a claim": podWith("c"), "an extended resource": extending()} {
				t.Run(mode.String()+"/"+what+"/"+kind, func(t *testing.T) {
					t.Parallel()
					pod := pod.DeepCopy()
					objects := []runtime.Object{two(), pod}
					if kind == "a claim" {
						objects = append(objects, claim("c", "r"))
					}
					w := newWorld(t, mode, at(1), objects...)
					w.client.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
						made := a.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim)
						made.Name, made.UID = made.GenerateName+"x", "special"
						return false, nil, nil
					})
					w.berth.decided = Lying{"main": set(1)}
					vanishes := func(now int) {
						if after == now {
							w.unplugs()
						}
					}
					state, status := w.attempt(pod)
					w.want("fits", status, "")
					vanishes(filtered)
					w.want("reserved", w.Reserve(w.ctx, state, pod, node), "")
					vanishes(reserved)
					w.want("written", w.PreBind(w.ctx, state, pod, node), "")
					vanishes(written)
					if err := w.Check(w.ctx, state, pod, node); err != nil {
						t.Errorf("before the Binding: %v", err)
					}
					stored := func() (devices []string) {
						list, err := w.client.ResourceV1().ResourceClaims("ns").List(w.ctx, metav1.ListOptions{})
						if err != nil {
							t.Fatal(err)
						}
						for i := range list.Items {
							devices = append(devices, w.stored(list.Items[i].Name))
						}
						return devices
					}
					if got := stored(); len(got) != 1 || got[0] != "d1, 1" {
						t.Errorf("before the Binding: %q", got)
					}
					w.Unreserve(w.ctx, state, pod, node) // Bind has failed
					if got := stored(); len(got) > 1 || len(got) == 1 && (kind != "a claim" || got[0] != "none, 0") || w.inFlight() != 0 {
						t.Errorf("given back: %q, %d in flight", got, w.inFlight())
					}
					_, status = w.attempt(pod)
					w.want("the next attempt", status, "cannot ") // allocate or schedule
				})
			}
		}
	}
}
