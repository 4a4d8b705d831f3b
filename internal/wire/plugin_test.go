package wire

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
)

func containersOf(names ...string) *placement.Decision {
	d := &placement.Decision{UID: "u"}
	for _, name := range names {
		d.Containers = append(d.Containers, placement.ContainerDecision{Name: name, Hint: placement.Hint{Any: true}})
	}
	return d
}

// TestDemandPlugin: every container gets its own annotation. If a container's name is too long for
// the key, the pod gets one annotation.
func TestDemandPlugin(t *testing.T) {
	long := strings.Repeat("x", 54)
	got := map[string]string{}
	bytes := DemandPlugin(got, containersOf("app", "sidecar", long, long+"y"))
	want := []string{RequiredPlugins + "/container.app", RequiredPlugins + "/container.sidecar", RequiredPlugins + "/pod"}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
	sum := 0
	for key, value := range got {
		sum += len(key) + len(value)
	}
	if bytes != sum {
		t.Errorf("%d bytes, want %d", bytes, sum)
	}
}

// TestCheckOwnPlacement: only Berth may name the plugins that a container requires, and its
// annotations for this count against the size limit.
func TestCheckOwnPlacement(t *testing.T) {
	pod := func(key, value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{key: value}}}
	}
	d := containersOf("app")
	if err := CheckOwnPlacement(pod("a", "b"), d); err != nil {
		t.Error(err)
	}
	for _, key := range []string{RequiredPlugins, RequiredPlugins + "/pod", RequiredPlugins + "/container.app"} {
		err := CheckOwnPlacement(pod(key, "[]"), d)
		if err == nil || !strings.Contains(err.Error(), "metadata.annotations["+key+"]") {
			t.Errorf("%s: %v", key, err)
		}
	}
	full := pod("a", strings.Repeat("x", 256<<10-300))
	if err := CheckPlacement(full, d); err != nil {
		t.Errorf("without demands: %v", err)
	}
	if err := CheckOwnPlacement(full, d); err == nil {
		t.Error("the demands have no room, and nobody says so")
	}
}
