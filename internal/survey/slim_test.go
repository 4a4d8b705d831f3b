package survey

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// TestSlimPodsKeepWhatBerthReads: the reduced pods of the map have the same meaning in every
// dialect, and no annotations of others.
func TestSlimPodsKeepWhatBerthReads(t *testing.T) {
	annotations, labels := wire.KeysRead()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/secret": "x"}, Labels: map[string]string{}}}
	for _, key := range annotations {
		pod.Annotations[key] = key
	}
	for _, key := range labels {
		pod.Labels[key] = key
	}
	slim := slimPod(pod)
	for _, key := range annotations {
		if slim.Annotations[key] != key {
			t.Errorf("annotation %s is dropped", key)
		}
	}
	for _, key := range labels {
		if slim.Labels[key] != key {
			t.Errorf("label %s is dropped", key)
		}
	}
	if len(slim.Annotations) != len(annotations) {
		t.Errorf("%d annotations are kept, Berth reads %d", len(slim.Annotations), len(annotations))
	}
}

// TestSlimPodsKeepTyingVolumes: a snapshot names the same volumes as a live cluster.
func TestSlimPodsKeepTyingVolumes(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		{Name: "ephemeral", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "inline", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"secret": "x"}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
	}}}
	slim := slimPod(pod)
	if got, want := TyingVolumes(slim), TyingVolumes(pod); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if c := slim.Spec.Volumes[2].CSI; c == nil || c.VolumeAttributes != nil {
		t.Errorf("the inline volume is %+v", c)
	}
}
