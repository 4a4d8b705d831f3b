package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

// podOf parses the spec and status of a pod.
func podOf(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	pod.Name, pod.Namespace, pod.UID = "p", "ns", "uid"
	return pod
}

func TestRequest(t *testing.T) {
	got, err := readRequest(podOf(t, `
spec:
  initContainers:
  - name: fetch
    resources: {limits: {cpu: "2", memory: 1Gi}}
  - name: proxy
    restartPolicy: Always
    resources: {limits: {cpu: 500m, memory: 64Mi}}
  containers:
  - name: main
    resources:
      limits: {cpu: "4", memory: 1.5Gi, hugepages-2Mi: 4Mi, nvidia.com/gpu: "2", ephemeral-storage: 1Gi, example.com/claimed: 1}
      requests: {cpu: "4", memory: 1536Mi}
  ephemeralContainers:
  - name: debug
    resources: {limits: {cpu: "64"}}
status:
  extendedResourceClaimStatus:
    resourceClaimName: x
    requestMappings: [{containerName: main, resourceName: example.com/claimed, requestName: r}]
`))
	if err != nil {
		t.Fatal(err)
	}
	memory := func(bytes uint64) placement.MemoryRequest {
		return placement.MemoryRequest{Resource: "memory", Bytes: bytes}
	}
	want := placement.Request{UID: "uid", Guaranteed: true, Containers: []placement.ContainerRequest{
		{Name: "fetch", Kind: placement.Init, MilliCPU: 2000, Memory: []placement.MemoryRequest{memory(1 << 30)}},
		{Name: "proxy", Kind: placement.Sidecar, MilliCPU: 500, Memory: []placement.MemoryRequest{memory(64 << 20)}},
		{Name: "main", MilliCPU: 4000, Memory: []placement.MemoryRequest{{Resource: "hugepages-2Mi", Bytes: 4 << 20}, memory(3 << 29)},
			Devices: []placement.DeviceRequest{{Resource: "example.com/claimed", Count: 1, Claimed: true}, {Resource: "nvidia.com/gpu", Count: 2}}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestGuaranteed(t *testing.T) {
	for name, test := range map[string]struct {
		pod  string
		want bool
	}{
		"limits only":              {`{spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, true},
		"requests are less":        {`{spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]}}`, false},
		"no memory limit":          {`{spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}`, false},
		"memory limit of nothing":  {`{spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 0}}}]}}`, false},
		"one container without":    {`{spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: d}]}}`, false},
		"init container without":   {`{spec: {initContainers: [{name: i}], containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, false},
		"sums are equal":           {`{spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 2, memory: 1Gi}}}, {name: d, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}}]}}`, true},
		"the status says so":       {`{status: {qosClass: Guaranteed}, spec: {containers: [{name: c}]}}`, true},
		"the status says no":       {`{status: {qosClass: Burstable}, spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, false},
		"pod-level":                {`{spec: {resources: {limits: {cpu: 1, memory: 1Gi}}, containers: [{name: c}]}}`, false},
		"pod-level and containers": {`{spec: {resources: {limits: {cpu: 1}}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, true},
		"empty resources":          {`{spec: {resources: {}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, true},
		"empty, that do not count": {`{spec: {resources: {limits: {ephemeral-storage: 1Gi}}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, true},
		"told, beside none":        {`{status: {qosClass: Guaranteed}, spec: {resources: {}, containers: [{name: c}]}}`, true},
		"no containers":            {`{spec: {containers: []}}`, false},
	} {
		got, err := readRequest(podOf(t, test.pod))
		if err != nil || got.Guaranteed != test.want {
			t.Errorf("%s: %v, %v: want %v", name, got.Guaranteed, err, test.want)
		}
		if levels := strings.HasPrefix(name, "pod-level"); got.PodLevel != levels {
			t.Errorf("%s: pod-level %v", name, got.PodLevel)
		}
		if empty := strings.HasPrefix(name, "empty"); got.EmptyLevel != empty {
			t.Errorf("%s: empty resources of the pod %v", name, got.EmptyLevel)
		}
	}
}

// TestLevel: the pod-level request, with the requests that the API server fills in, and the
// containers that have their own resources.
func TestLevel(t *testing.T) {
	bytes := func(name string, n uint64) placement.MemoryRequest {
		return placement.MemoryRequest{Resource: name, Bytes: n}
	}
	for name, c := range map[string]struct {
		pod   string
		want  placement.LevelRequest
		alone string // the containers that are Guaranteed by their own resources
	}{
		"none": {`{spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`, placement.LevelRequest{}, ""},
		"all said": {`{spec: {resources: {limits: {cpu: 4, memory: 2Gi}, requests: {cpu: 4, memory: 2Gi}}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: d}]}}`,
			placement.LevelRequest{Guaranteed: true, MilliCPU: 4000, Memory: []placement.MemoryRequest{bytes("memory", 2<<30)}}, "c"},
		"limits, and the containers ask for less": {`{spec: {resources: {limits: {cpu: 4, memory: 2Gi}}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}`,
			placement.LevelRequest{MilliCPU: 1000, Memory: []placement.MemoryRequest{bytes("memory", 1<<30)}}, "c"},
		"limits, and the containers ask for nothing": {`{spec: {resources: {limits: {cpu: 4, memory: 2Gi}}, containers: [{name: c}]}}`,
			placement.LevelRequest{Guaranteed: true, MilliCPU: 4000, Memory: []placement.MemoryRequest{bytes("memory", 2<<30)}}, ""},
		"requests": {`{spec: {resources: {requests: {cpu: 4}}, containers: [{name: c}]}}`, placement.LevelRequest{MilliCPU: 4000}, ""},
		"huge pages of the containers": {`{spec: {resources: {limits: {cpu: 4, memory: 2Gi}, requests: {cpu: 4, memory: 2Gi}}, containers: [{name: c, resources: {limits: {hugepages-2Mi: 4Mi}}}]}}`,
			placement.LevelRequest{Guaranteed: true, MilliCPU: 4000, Memory: []placement.MemoryRequest{bytes("hugepages-2Mi", 4<<20), bytes("memory", 2<<30)}}, ""},
		"the status says so": {`{status: {qosClass: Burstable}, spec: {resources: {limits: {cpu: 4, memory: 1500m}, requests: {cpu: 4, memory: 1500m}}, containers: [{name: c}]}}`,
			placement.LevelRequest{MilliCPU: 4000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 2, Fraction: true}}}, ""},
		"requests unlike limits": {`{spec: {resources: {limits: {cpu: 4, memory: 2Gi}, requests: {cpu: 4, memory: 2Gi}}, containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}},
			{name: d, resources: {requests: {cpu: 1, memory: 1Gi}}}, {name: e, resources: {limits: {cpu: 0, memory: 1Gi}}}]}}`,
			placement.LevelRequest{Guaranteed: true, MilliCPU: 4000, Memory: []placement.MemoryRequest{bytes("memory", 2<<30)}}, ""},
	} {
		got, err := readRequest(podOf(t, c.pod))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		alone := ""
		for _, r := range got.Containers {
			if r.Guaranteed {
				alone += r.Name
			}
		}
		if !reflect.DeepEqual(got.Level, c.want) || alone != c.alone {
			t.Errorf("%s: got %+v, alone %q; want %+v, %q", name, got.Level, alone, c.want, c.alone)
		}
	}
	_, err := readRequest(podOf(t, `{spec: {resources: {limits: {memory: 2Ei}}, containers: [{name: c}]}}`))
	var wrong *FieldError
	if !errors.As(err, &wrong) || wrong.Field != "spec.resources.requests[memory]" {
		t.Errorf("an absurd amount: %v", err)
	}
}

// TestExtendedResourceInBytes: the Node has the amount, and there is no device plugin. The
// kubelet's managers ignore it.
func TestExtendedResourceInBytes(t *testing.T) {
	r, err := readRequest(podOf(t, `spec: {containers: [{name: main, resources: {limits: {sgx.intel.com/epc: 512Gi, cpu: "2", memory: 1Gi}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	n := sampleNode(t)
	model := made.ModelOf(t, n.Spec.View, n.Spec.Config)
	if v := placement.Admit(model.NewState(), &r); v.Reason != placement.Admitted {
		t.Errorf("%v, want Admitted", v)
	}
}

// TestAbsurdAmounts: an error names the field and the value.
func TestAbsurdAmounts(t *testing.T) {
	for resources, field := range map[string]string{
		`limits: {cpu: "1000000000000000000"}`:                      "spec.containers[0].resources.limits[cpu]",
		`limits: {cpu: "-1"}`:                                       "spec.containers[0].resources.limits[cpu]",
		`{limits: {cpu: "1"}, requests: {cpu: "-1"}}`:               "spec.containers[0].resources.requests[cpu]",
		`limits: {memory: -1Gi}`:                                    "spec.containers[0].resources.limits[memory]",
		`limits: {memory: 8Ei}`:                                     "spec.containers[0].resources.limits[memory]",
		`limits: {hugepages-1Gi: 5Ei}`:                              "spec.containers[0].resources.limits[hugepages-1Gi]",
		`limits: {nvidia.com/gpu: "-2"}`:                            "spec.containers[0].resources.limits[nvidia.com/gpu]",
		`limits: {nvidia.com/gpu: 1E}`:                              "spec.containers[0].resources.limits[nvidia.com/gpu]",
		`requests: {nvidia.com/gpu: "-1"}`:                          "spec.containers[0].resources.requests[nvidia.com/gpu]",
		`limits: {memory: "9999999999999999999999999999999999999"}`: "spec.containers[0].resources.limits[memory]",
	} {
		if !strings.HasPrefix(resources, "{") {
			resources = "{" + resources + "}"
		}
		_, err := readRequest(podOf(t, `{spec: {containers: [{name: c, resources: `+resources+`}]}}`))
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Field != field || wrong.Object != "Pod ns/p" {
			t.Errorf("%s: got %v, want an error about %s", resources, err, field)
		}
	}
}

// TestOddAmounts: amounts are neither rounded nor refused if the kubelet accepts them.
func TestOddAmounts(t *testing.T) {
	got, err := readRequest(podOf(t, `{spec: {containers: [{name: c, resources: {limits: {cpu: 1999u, memory: 100m, example.com/x: 1500m, kubernetes.io/batch: 1, plain: 2}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := got.Containers[0]
	if c.MilliCPU != 2 || len(c.Memory) != 1 || !c.Memory[0].Fraction || len(c.Devices) != 1 || c.Devices[0].Count != 2 {
		t.Errorf("got %+v", c)
	}
}

// FuzzRequest: no pod causes a panic, or an amount that the engine refuses.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1.5Gi","x.y/z":"3"}}}]}}`))
	f.Add([]byte(`{"spec":{"initContainers":[{"name":"c","restartPolicy":"Always","resources":{"requests":{"hugepages-2Mi":"1e3"}}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pod := new(corev1.Pod)
		if json.Unmarshal(text, pod) != nil {
			return
		}
		r, err := readRequest(pod)
		if err != nil {
			return
		}
		for _, c := range r.Containers {
			if c.MilliCPU < 0 || c.MilliCPU > 1_000_000_000 {
				t.Errorf("%d thousandths of a CPU", c.MilliCPU)
			}
			for _, m := range c.Memory {
				if m.Bytes > 1<<60 {
					t.Errorf("%d bytes", m.Bytes)
				}
			}
			for _, d := range c.Devices {
				if d.Count < 0 || d.Count > 1<<30 {
					t.Errorf("%d devices", d.Count)
				}
			}
		}
	})
}

// TestNamesThatNoPluginOffers: a kubelet pins no resources for a device class, so that such a pod
// need not wait for a report.
func TestNamesThatNoPluginOffers(t *testing.T) {
	for name, offered := range map[string]bool{
		"example.com/gpu": true, "kubernetes.example/gpu": true, "deviceclass.resource.kubernetes.io/gpu": false, "node.kubernetes.io/gpu": false,
		"kubernetes.io/gpu": false, "requests.example.com/gpu": false, "storage": false,
	} {
		pod := podOf(t, `{spec: {containers: [{name: c, resources: {limits: {`+name+`: 1}}}]}}`)
		if r, err := readRequest(pod); err != nil || r.Pinnable() != offered {
			t.Errorf("%s: pinnable %t, %v: want %t", name, r.Pinnable(), err, offered)
		}
	}
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestConfig(t *testing.T) {
	kc := &kubeletv1beta1.KubeletConfiguration{
		CPUManagerPolicy:        "static",
		CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"},
		KubeReserved:            map[string]string{"cpu": "500m", "memory": "1Gi"},
		SystemReserved:          map[string]string{"cpu": "1", "memory": "512Mi", "pid": "1000", "ephemeral-storage": "1Gi"},
		EvictionHard:            map[string]string{"memory.available": "10%"},
		MemoryManagerPolicy:     "Static",
		ReservedMemory:          []kubeletv1beta1.MemoryReservation{{NumaNode: 1, Limits: quantities("memory", "1Gi")}},
		TopologyManagerPolicy:   "restricted",
		TopologyManagerScope:    "pod",
	}
	got, err := ReadConfig(kc, KubeletFacts{Version: placement.V135, MemoryBytes: 10 << 30})
	if err != nil {
		t.Fatal(err)
	}
	// The kubelet multiplies by a float32, so that 10% is a little more than a tenth.
	share := 0.1
	evicted := uint64(float64(10<<30) * float64(float32(math.Nextafter(share, 1))))
	want := placement.Config{
		Version: placement.V135, CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"},
		ReservedMilliCPU: 1500, MemoryManagerPolicy: "Static",
		ReservedMemory:        []placement.ReservedMemory{{NUMA: 1, Limits: map[string]uint64{"memory": 1 << 30}}},
		NodeReserved:          map[string]uint64{"memory": 3<<29 + evicted},
		TopologyManagerPolicy: "restricted", TopologyManagerScope: "pod",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got, err = ReadConfig(kc, KubeletFacts{Version: placement.V135, MemoryBytes: 10 << 30, Partitioned: true})
	want.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true", "strict-cpu-reservation": "true"}
	if err != nil || !reflect.DeepEqual(got, want) || len(kc.CPUManagerPolicyOptions) != 1 {
		t.Errorf("with OpenShift's workload partitioning: %v, got  %+v\nwant %+v", err, got, want)
	}
	if got, _ := ReadConfig(kc, KubeletFacts{}); got.NodeReserved != nil {
		t.Errorf("a percentage of an unknown amount: got %v, want nil", got.NodeReserved)
	}
	kc.EvictionHard = nil
	if got, _ := ReadConfig(kc, KubeletFacts{}); got.NodeReserved["memory"] != 3<<29+100<<20 {
		t.Errorf("the default threshold: got %d", got.NodeReserved["memory"])
	}
}

func TestEvictionThreshold(t *testing.T) {
	const capacity = 10 << 30
	for name, tc := range map[string]struct {
		hard   map[string]string
		merged *bool
		want   uint64
	}{
		"an amount":                {map[string]string{"memory.available": "1Gi"}, nil, 1 << 30},
		"half":                     {map[string]string{"memory.available": "50%"}, nil, 5 << 30},
		"0% turns it off":          {map[string]string{"memory.available": "0%"}, nil, 0},
		"100% turns it off":        {map[string]string{"memory.available": "100%"}, nil, 0},
		"only others":              {map[string]string{"nodefs.available": "5%"}, nil, 0},
		"only others, not merged":  {map[string]string{"nodefs.available": "5%"}, new(false), 0},
		"only others, merged":      {map[string]string{"nodefs.available": "5%"}, new(true), 100 << 20},
		"none, merged":             {map[string]string{}, new(true), 100 << 20},
		"merged, and itself there": {map[string]string{"memory.available": "1Gi"}, new(true), 1 << 30},
		"merged, and turned off":   {map[string]string{"memory.available": "100%"}, new(true), 0},
	} {
		kc := kubeletv1beta1.KubeletConfiguration{EvictionHard: tc.hard, MergeDefaultEvictionSettings: tc.merged}
		got, err := ReadConfig(&kc, KubeletFacts{MemoryBytes: capacity})
		if err != nil || got.NodeReserved["memory"] != tc.want {
			t.Errorf("%s: got %d, %v: want %d", name, got.NodeReserved["memory"], err, tc.want)
		}
	}
	if got, err := ReadConfig(&kubeletv1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "100%"}}, KubeletFacts{}); err != nil || got.NodeReserved == nil {
		t.Errorf("a threshold that is off, of an unknown amount: got %v, %v: want it known", got.NodeReserved, err)
	}
}

// TestReservedFractions: since 1.37, a kubelet rounds each amount of CPU to the nearest thousandth.
// Until then, it rounded their sum up.
func TestReservedFractions(t *testing.T) {
	for _, c := range []struct {
		kube, system string
		want136      int64
		want137      int64
	}{
		{"82.5m", "", 83, 83}, {"1000.4m", "", 1001, 1000}, {"0.0004", "0.0004", 1, 0}, {"0.0005", "0.0004", 1, 1}, {"500m", "1.5", 2000, 2000},
	} {
		kc := kubeletv1beta1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": c.kube}, SystemReserved: map[string]string{"cpu": c.system}}
		if c.system == "" {
			kc.SystemReserved = nil
		}
		for version, want := range map[placement.Version]int64{placement.V136: c.want136, placement.V137: c.want137} {
			if got, err := ReadConfig(&kc, KubeletFacts{Version: version}); err != nil || got.ReservedMilliCPU != want {
				t.Errorf("%s and %s, 1.%d: %dm, %v, want %dm", c.kube, c.system, version, got.ReservedMilliCPU, err, want)
			}
		}
	}
	// With the Static memory manager, a fraction of a byte keeps the kubelet from starting.
	for field, kc := range map[string]kubeletv1beta1.KubeletConfiguration{
		"kubeReserved[memory]":           {KubeReserved: map[string]string{"memory": "14.3Gi"}},
		"systemReserved[memory]":         {KubeReserved: map[string]string{"memory": "1.5Gi"}, SystemReserved: map[string]string{"memory": "0.1Gi"}},
		"evictionHard[memory.available]": {EvictionHard: map[string]string{"memory.available": "1.1Gi"}},
		"":                               {KubeReserved: map[string]string{"memory": "0.5"}, SystemReserved: map[string]string{"memory": "0.5"}},
	} {
		if _, err := ReadConfig(&kc, KubeletFacts{}); err != nil {
			t.Errorf("%s, memory manager None: %v", field, err)
		}
		kc.MemoryManagerPolicy = "Static"
		_, err := ReadConfig(&kc, KubeletFacts{})
		var wrong *FieldError
		if is := errors.As(err, &wrong); is != (field != "") || is && wrong.Field != field {
			t.Errorf("got %v, want an error about %q", err, field)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for field, kc := range map[string]kubeletv1beta1.KubeletConfiguration{
		"kubeReserved[cpu]":                 {KubeReserved: map[string]string{"cpu": "two"}},
		"kubeReserved[hugepages-2Mi]":       {KubeReserved: map[string]string{"hugepages-2Mi": "4Mi"}},
		"reservedMemory[1].limits[memory]":  {ReservedMemory: []kubeletv1beta1.MemoryReservation{{}, {Limits: quantities("memory", "0")}}},
		"systemReserved[memory]":            {SystemReserved: map[string]string{"memory": "-1Gi"}},
		"evictionHard[memory.available]":    {EvictionHard: map[string]string{"memory.available": "NaN%"}},
		"reservedMemory[0].numaNode":        {ReservedMemory: []kubeletv1beta1.MemoryReservation{{NumaNode: -1}}},
		"reservedMemory[0].limits[memory]":  {ReservedMemory: []kubeletv1beta1.MemoryReservation{{Limits: quantities("memory", "-1")}}},
		"reservedMemory[0].limits[storage]": {ReservedMemory: []kubeletv1beta1.MemoryReservation{{Limits: quantities("storage", "1")}}},
	} {
		_, err := ReadConfig(&kc, KubeletFacts{})
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("got %v, want an error about %s", err, field)
		}
	}
}

// TestTooManyContainers: init containers and containers are counted together. If a pod has too many
// of them, nothing of it is read.
func TestTooManyContainers(t *testing.T) {
	pod := podOf(t, `{spec: {containers: [{name: c}]}}`)
	for i := range placement.MaxContainers - 1 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: fmt.Sprint("i", i)})
	}
	if ask, err := ReadPod(pod); err != nil || len(ask.Request.Containers) != placement.MaxContainers {
		t.Fatalf("%d containers read, %v", len(ask.Request.Containers), err)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "last"})
	_, err := ReadPod(pod)
	var wrong *FieldError
	if !errors.As(err, &wrong) || wrong.Field != "spec.containers" || !strings.HasPrefix(wrong.Value, "257") || wrong.Want != "at most 256 in all" {
		t.Errorf("got %v, want an error about the 257 containers", err)
	}
}
