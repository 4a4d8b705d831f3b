package wire

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

// TestReadBoundGoesByTheAllocation: a resize that is deferred or refused changes the spec, but not
// the kubelet's allocation.
func TestReadBoundGoesByTheAllocation(t *testing.T) {
	const guaranteed = `resources: {requests: {cpu: 8, memory: 2Gi}, limits: {cpu: 8, memory: 2Gi}}`
	for name, c := range map[string]struct {
		pod      string
		milliCPU int64
		bytes    uint64
		pinned   bool
	}{
		"not told yet":     {`{spec: {containers: [{name: c, ` + guaranteed + `}]}}`, 8000, 2 << 30, true},
		"refused":          {`{spec: {containers: [{name: c, ` + guaranteed + `}]}, status: {containerStatuses: [{name: c, allocatedResources: {cpu: 4, memory: 2Gi}}]}}`, 4000, 2 << 30, true},
		"refused, a class": {`{spec: {containers: [{name: c, ` + guaranteed + `}]}, status: {qosClass: Guaranteed, containerStatuses: [{name: c, allocatedResources: {cpu: 4, memory: 1Gi}}]}}`, 4000, 1 << 30, true},
		"by limits alone":  {`{spec: {containers: [{name: c, resources: {limits: {cpu: 8, memory: 2Gi}}}]}, status: {containerStatuses: [{name: c, allocatedResources: {cpu: 4, memory: 2Gi}}]}}`, 4000, 2 << 30, true},
		"another's":        {`{spec: {containers: [{name: c, ` + guaranteed + `}]}, status: {containerStatuses: [{name: d, allocatedResources: {cpu: 4}}]}}`, 8000, 2 << 30, true},
		"burstable":        {`{spec: {containers: [{name: c, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 8}}}]}, status: {containerStatuses: [{name: c, allocatedResources: {cpu: 1, memory: 1Gi}}]}}`, 1000, 1 << 30, false},
		"a sidecar":        {`{spec: {initContainers: [{name: c, restartPolicy: Always, ` + guaranteed + `}]}, status: {initContainerStatuses: [{name: c, allocatedResources: {cpu: 4, memory: 2Gi}}]}}`, 4000, 2 << 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, c.pod)
			before := pod.DeepCopy()
			ask, err := ReadBound(pod)
			if err != nil {
				t.Fatal(err)
			}
			got := &ask.Request.Containers[0]
			if got.MilliCPU != c.milliCPU || got.Bytes(string(corev1.ResourceMemory)) != c.bytes || ask.Request.Guaranteed != c.pinned {
				t.Errorf("%dm CPU, %d bytes, Guaranteed %t", got.MilliCPU, got.Bytes("memory"), ask.Request.Guaranteed)
			}
			if !AsksFor(pod, &ask.Request) {
				t.Error("AsksFor does not say so")
			}
			got.MilliCPU++
			if AsksFor(pod, &ask.Request) {
				t.Error("AsksFor says so of other amounts")
			}
			if got, want := pod.String(), before.String(); got != want {
				t.Errorf("the pod was changed: %s, want %s", got, want)
			}
		})
	}
}

// TestQOSOf compares with qos.ComputePodQOS, which the API server asks about a resize.
func TestQOSOf(t *testing.T) {
	const guaranteed = `resources: {requests: {cpu: 8, memory: 2Gi}, limits: {cpu: 8, memory: 2Gi}}`
	for spec, want := range map[string]corev1.PodQOSClass{
		`{containers: [{name: c, ` + guaranteed + `}]}`:                                                                            corev1.PodQOSGuaranteed,
		`{containers: [{name: c, resources: {requests: {cpu: 8}}}]}`:                                                               corev1.PodQOSBurstable,
		`{containers: [{name: c, ` + guaranteed + `}, {name: d}]}`:                                                                 corev1.PodQOSBurstable,
		`{containers: [{name: c}]}`:                                                                                                corev1.PodQOSBestEffort,
		`{containers: [{name: c}], ` + guaranteed + `}`:                                                                            corev1.PodQOSGuaranteed,
		`{containers: [{name: c, resources: {requests: {cpu: 1}}}], ` + guaranteed + `}`:                                           corev1.PodQOSGuaranteed,
		`{containers: [{name: c, ` + guaranteed + `}], resources: {requests: {cpu: 9, memory: 3Gi}}}`:                              corev1.PodQOSBurstable,
		`{containers: [{name: c, ` + guaranteed + `}], resources: {requests: {hugepages-2Mi: 2Mi}, limits: {hugepages-2Mi: 2Mi}}}`: corev1.PodQOSBestEffort,
	} {
		pod := podOf(t, `{spec: `+spec+`, status: {qosClass: Burstable}}`)
		if got := QOSOf(pod); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
		if got := qos.ComputePodQOS(pod); got != want {
			t.Errorf("%s: ComputePodQOS is %s, want %s", spec, got, want)
		}
	}
}
