package wire

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
)

// FuzzReadNumatopology reads objects with any fields, as the API server serves them. Malformed
// objects are an error.
func FuzzReadNumatopology(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"n"},"spec":{"policies":{"CPUManagerPolicy":"static"},"numares":{"cpu":{"allocatable":"0-1","capacity":2}},"cpuDetail":{"0":{},"1":{"core":1}},"resReserved":{"cpu":"1"}}}`))
	f.Add([]byte(`{"metadata":{"name":"n"},"spec":{"numares":{"memory":{"capacity":"256Gi"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := new(nodeinfo.Numatopology)
		if json.Unmarshal(data, o) != nil {
			return
		}
		if _, err := ReadNumatopology(o, &Beside{Pods: []BoundPod{bound("a", 0)}}); err == nil && o.Malformed != "" {
			t.Errorf("read in spite of %s", o.Malformed)
		}
	})
}

// FuzzReadNodeResourceTopology is FuzzReadNumatopology for zones.
func FuzzReadNodeResourceTopology(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"n","annotations":{"node.koordinator.sh/cpu-topology":"{\"detail\":[{\"id\":0,\"core\":0,\"socket\":0,\"node\":0}]}"}},"topologyPolicies":["SingleNUMANodePodLevel"],
"zones":[{"name":"node-0","type":"Node","costs":[{"name":"node-0","value":10}],"resources":[{"name":"cpu","capacity":"1","allocatable":"1","available":"1"}]}]}`))
	f.Add([]byte(`{"metadata":{"name":"n"},"zones":[{"name":"node-0","resources":[{"name":"cpu","available":"1e1.5"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := new(nrt.NodeResourceTopology)
		if json.Unmarshal(data, o) != nil {
			return
		}
		if _, err := ReadNodeResourceTopology(o, &Beside{Pods: []BoundPod{bound("a", 0)}}); err == nil && o.Malformed != "" {
			t.Errorf("read in spite of %s", o.Malformed)
		}
	})
}

// FuzzReadReservation: a Reservation with any fields is refused, or has a pod that holds its place.
func FuzzReadReservation(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"r","uid":"u"},"spec":{` + fourCPUs + `,` + anyOwners + `,"ttl":"1h"},"status":{"phase":"Available","nodeName":"n"}}`))
	f.Add([]byte(`{"metadata":{"name":"r"},"spec":{"template":{"spec":{"schedulerName":"berth","containers":"x"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := new(koordinator.Reservation)
		if json.Unmarshal(data, o) != nil {
			return
		}
		r, err := ReadReservation(o)
		switch {
		case (r == nil) == (err == nil):
			t.Errorf("%+v, %v", r, err)
		case err == nil && (o.Malformed != "" || len(r.Pod.Spec.Containers) == 0):
			t.Errorf("read as %+v in spite of %q", r.Pod, o.Malformed)
		case err == nil:
			r.Owns(podWith("p", "1"))
		}
	})
}

// FuzzReadAllocated: a pod's annotation about its Reservation is read back as it was written.
func FuzzReadAllocated(f *testing.F) {
	f.Add(`{"name":"r","uid":"u"}`)
	f.Fuzz(func(t *testing.T, text string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AllocatedAnnotation: text}}}
		r := &Reservation{Name: ReadAllocatedName(pod), UID: ReadAllocated(pod)}
		pod.Annotations[AllocatedAnnotation] = r.WriteAllocated()
		if len(pod.Annotations[AllocatedAnnotation]) <= maxKoordinatorText && (ReadAllocatedName(pod) != r.Name || ReadAllocated(pod) != r.UID) {
			t.Errorf("%q: read %s of %s, and then %s of %s", text, r.Name, r.UID, ReadAllocatedName(pod), ReadAllocated(pod))
		}
	})
}

// FuzzReadKoordinatorGroup: a PodGroup with any fields has a valid minimum, or is refused.
func FuzzReadKoordinatorGroup(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"g","annotations":{"gang.scheduling.koordinator.sh/mode":"Strict","gang.scheduling.koordinator.sh/waiting-time":"10m"}},"spec":{"minMember":2,"minResources":{"cpu":"4"},"scheduleTimeoutSeconds":5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := new(sigs.PodGroup)
		if json.Unmarshal(data, o) != nil {
			return
		}
		if g, err := ReadKoordinatorGroup(o); err == nil && (o.Malformed != "" || g.Minimum < 0 || g.Minimum > MaxGang || g.Timeout <= 0) {
			t.Errorf("%+v, malformed %q", g, o.Malformed)
		}
	})
}

// FuzzReadTokens: a number of tokens is at least 0, or -1, which no decision has.
func FuzzReadTokens(f *testing.F) {
	f.Add("nvidia.com_gpu", "2", "nvidia.com/gpu", "3")
	f.Fuzz(func(t *testing.T, resource, n, other, m string) {
		for name, count := range ReadTokens(map[string]string{tokensPrefix + resource: n, tokensPrefix + other: m, resource: n}) {
			if count < -1 {
				t.Errorf("%d of %q", count, name)
			}
		}
	})
}

// FuzzReadVolcanoRules: the annotation has an existing policy, or is refused.
func FuzzReadVolcanoRules(f *testing.F) {
	f.Add("single-numa-node", true)
	f.Fuzz(func(t *testing.T, text string, ownCPUs bool) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{VolcanoPolicyAnnotation: text}}}
		r, err := readVolcanoRules(pod, ownCPUs)
		if asks := isVolcano(r); err != nil && asks || asks && (r.Policy.String() != text || !ownCPUs) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	})
}
