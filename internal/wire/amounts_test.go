package wire

import (
	"fmt"
	"maps"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/placement"
)

// TestAmountsOfResizedPods: during a resize, the larger of the old and the new amount counts, for a
// container and for a whole pod. kube-scheduler does the same.
func TestAmountsOfResizedPods(t *testing.T) {
	for name, test := range map[string]struct {
		pod   string
		milli int64
	}{
		"container": {`{spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]},
			status: {containerStatuses: [{name: c, resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 6}}]}}`, 6000},
		"whole pod": {`{spec: {resources: {requests: {cpu: 2}}, containers: [{name: c}]},
			status: {resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 6}}}`, 6000},
		"whole pod, by limits": {`{spec: {resources: {limits: {cpu: 2}}, containers: [{name: c}]},
			status: {resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 4}}}`, 6000},
		"whole pod that grows": {`{spec: {resources: {requests: {cpu: 8}}, containers: [{name: c}]},
			status: {resources: {requests: {cpu: 6}}, allocatedResources: {cpu: 6}}}`, 8000},
		"resize that cannot be": {`{spec: {resources: {requests: {cpu: 900}}, containers: [{name: c}]}, status: {resources: {requests: {cpu: 6}},
			allocatedResources: {cpu: 6}, conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]}}`, 6000},
	} {
		if got := ReadAmounts(podOf(t, test.pod))[amounts.CPU]; got != test.milli {
			t.Errorf("%s: %dm, want %dm", name, got, test.milli)
		}
	}
}

// TestReadQuota: the smallest rest of a resource counts, whatever it is called.
func TestReadQuota(t *testing.T) {
	q := resource.MustParse
	for name, c := range map[string]struct {
		hard, used corev1.ResourceList
		want       amounts.List
	}{
		"none":                {nil, nil, amounts.List{}},
		"requests":            {corev1.ResourceList{"requests.cpu": q("12"), "requests.nvidia.com/gpu": q("4")}, corev1.ResourceList{"requests.cpu": q("2500m")}, amounts.List{"cpu": 9500, "nvidia.com/gpu": 4}},
		"without a prefix":    {corev1.ResourceList{"cpu": q("12"), "pods": q("3")}, corev1.ResourceList{"pods": q("1")}, amounts.List{"cpu": 12000, "pods": 2}},
		"objects":             {corev1.ResourceList{"count/pods": q("3")}, nil, amounts.List{"pods": 3}},
		"limits are smaller":  {corev1.ResourceList{"requests.cpu": q("12"), "limits.cpu": q("8")}, nil, amounts.List{"cpu": 8000}},
		"more is used":        {corev1.ResourceList{"cpu": q("1")}, corev1.ResourceList{"cpu": q("2")}, amounts.List{"cpu": 0}},
		"more than there are": {corev1.ResourceList{"memory": q("100Ei")}, nil, amounts.List{"memory": math.MaxInt64}},
	} {
		if got := ReadQuota(&corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: c.hard, Used: c.used}}); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestReservedWithoutCPUs: an error about a machine without CPUs comes from package placement.
func TestReservedWithoutCPUs(t *testing.T) {
	if err := CheckReserved("0", &placement.KubeletView{}); err != nil {
		t.Error(err)
	}
}

// TestLevelDefaults has cases of the e2e tests of Kubernetes 1.37 about spec.resources
// (test/e2e/common/node/pod_level_resources.go).
func TestLevelDefaults(t *testing.T) {
	both := func(cpu, memory string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if text != "" {
				list[name] = resource.MustParse(text)
			}
		}
		return list
	}
	limits := func(cpu, memory string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: both(cpu, memory)}}
	}
	for name, c := range map[string]struct {
		own        corev1.ResourceRequirements
		containers []corev1.Container
		want       string
	}{
		"containers with limits":       {corev1.ResourceRequirements{Requests: both("100m", "100Mi")}, []corev1.Container{limits("50m", "50Mi"), limits("50m", "50Mi")}, "100m/100m 100Mi/100Mi Guaranteed"},
		"containers that want less":    {corev1.ResourceRequirements{Requests: both("100m", "100Mi")}, []corev1.Container{limits("30m", "30Mi"), limits("30m", "30Mi")}, "100m/100m 100Mi/100Mi Guaranteed"},
		"a container without limits":   {corev1.ResourceRequirements{Requests: both("100m", "100Mi")}, []corev1.Container{limits("50m", "50Mi"), {}}, "100m/0 100Mi/0 Burstable"},
		"only a request of CPU":        {corev1.ResourceRequirements{Requests: both("50m", "")}, []corev1.Container{limits("50m", "50Mi")}, "50m/50m 50Mi/50Mi Guaranteed"},
		"limits above the containers'": {corev1.ResourceRequirements{Limits: both("100m", "100Mi")}, []corev1.Container{limits("50m", "50Mi"), limits("30m", "30Mi")}, "80m/100m 80Mi/100Mi Burstable"},
		"only limits":                  {corev1.ResourceRequirements{Limits: both("100m", "100Mi")}, []corev1.Container{{}, {}}, "100m/100m 100Mi/100Mi Guaranteed"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: c.containers, Resources: &c.own}}
		got := LevelDefaults(pod)
		pod.Spec.Resources = got
		text := fmt.Sprintf("%s/%s %s/%s %s", got.Requests.Cpu(), got.Limits.Cpu(), got.Requests.Memory(), got.Limits.Memory(), QOSOf(pod))
		if text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	huge := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Limits: both("1", "1Gi")}, Containers: []corev1.Container{limits("1", "1Gi")}}}
	huge.Spec.Containers[0].Resources.Limits["hugepages-2Mi"] = resource.MustParse("4Mi")
	got := LevelDefaults(huge)
	if limit, request := got.Limits["hugepages-2Mi"], got.Requests["hugepages-2Mi"]; limit.String() != "4Mi" || request.String() != "4Mi" {
		t.Errorf("huge pages: %+v", got)
	}
}
