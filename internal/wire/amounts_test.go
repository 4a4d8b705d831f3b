package wire

import (
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

// TestReadQuotas: the smallest rest of a resource counts, whatever its quota is called.
func TestReadQuotas(t *testing.T) {
	quota := func(hard, used corev1.ResourceList, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: scopes}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}
	}
	q := resource.MustParse
	for name, c := range map[string]struct {
		quotas []*corev1.ResourceQuota
		want   amounts.List
	}{
		"none":                {nil, amounts.List{}},
		"requests":            {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"requests.cpu": q("12"), "requests.nvidia.com/gpu": q("4")}, corev1.ResourceList{"requests.cpu": q("2500m")})}, amounts.List{"cpu": 9500, "nvidia.com/gpu": 4}},
		"without a prefix":    {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"cpu": q("12"), "pods": q("3")}, corev1.ResourceList{"pods": q("1")})}, amounts.List{"cpu": 12000, "pods": 2}},
		"objects":             {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"count/pods": q("3")}, nil)}, amounts.List{"pods": 3}},
		"limits are smaller":  {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"requests.cpu": q("12"), "limits.cpu": q("8")}, nil)}, amounts.List{"cpu": 8000}},
		"another is smaller":  {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"cpu": q("12")}, nil), quota(corev1.ResourceList{"requests.cpu": q("3")}, nil)}, amounts.List{"cpu": 3000}},
		"more is used":        {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"cpu": q("1")}, corev1.ResourceList{"cpu": q("2")})}, amounts.List{"cpu": 0}},
		"of some pods":        {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"cpu": q("1")}, nil, corev1.ResourceQuotaScopeBestEffort)}, amounts.List{}},
		"more than there are": {[]*corev1.ResourceQuota{quota(corev1.ResourceList{"memory": q("100Ei")}, nil)}, amounts.List{"memory": math.MaxInt64}},
	} {
		if got := ReadQuotas(c.quotas); !maps.Equal(got, c.want) {
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
