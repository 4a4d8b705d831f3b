package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

var lines = []struct {
	text string
	pod  PodAllocation
}{
	{"u-1", PodAllocation{UID: "u-1"}},
	{"u-1 pod=ml/train-0 gen=2 main;cpus=1", PodAllocation{UID: "u-1", Pod: "ml/train-0", Generation: 2, Containers: []ContainerAllocation{{Name: "main", CPUs: "1"}}}},
	{"u-1 state=Unknown gen=18446744073709551615", PodAllocation{UID: "u-1", State: PodUnknown, Generation: 18446744073709551615}},
	{"u-1 pod=ml/train-0 state=Ended", PodAllocation{UID: "u-1", Pod: "ml/train-0", State: PodEnded}},
	{"u-1 pod=ml/train-0 setup:Init;mem=memory@0-1=6Gi main;cpus=2-3,66-67;mem=hugepages-1Gi@0=2Gi;mem=memory@0=4Gi;dev=example.com/nic=a;dev=nvidia.com/gpu=0000:3b:00.0,1",
		PodAllocation{UID: "u-1", Pod: "ml/train-0", Containers: []ContainerAllocation{
			{Name: "setup", Kind: KindInit, Memory: []MemoryBlock{"memory@0-1=6Gi"}},
			{Name: "main", CPUs: "2-3,66-67", Memory: []MemoryBlock{"hugepages-1Gi@0=2Gi", "memory@0=4Gi"}, Devices: []DeviceAllocation{
				{Resource: "example.com/nic", IDs: []DeviceID{"a"}}, {Resource: "nvidia.com/gpu", IDs: []DeviceID{"0000:3b:00.0", "1"}}}},
		}}},
	{"u-2 pinned;cpus=2,10;exclusive=core shared;shares=0:1500,1:500;mem=memory@0=1Gi", PodAllocation{UID: "u-2", Containers: []ContainerAllocation{
		{Name: "pinned", CPUs: "2,10", Exclusive: ExclusiveCore},
		{Name: "shared", Shares: []CPUShare{{0, 1500}, {1, 500}}, Memory: []MemoryBlock{"memory@0=1Gi"}}}}},
	{"u-3 pod=a/b *;cpus=2-5;mem=memory@0=4Gi main;cpus=2-3;mem=memory@0=1Gi side;cpus=4-5;mem=memory@0=3Gi", PodAllocation{UID: "u-3", Pod: "a/b",
		Whole: &ContainerAllocation{CPUs: "2-5", Memory: []MemoryBlock{"memory@0=4Gi"}}, Containers: []ContainerAllocation{
			{Name: "main", CPUs: "2-3", Memory: []MemoryBlock{"memory@0=1Gi"}}, {Name: "side", CPUs: "4-5", Memory: []MemoryBlock{"memory@0=3Gi"}}}}},
	{"u-4 %2A;cpus=1", PodAllocation{UID: "u-4", Containers: []ContainerAllocation{{Name: "*", CPUs: "1"}}}},
	{"u%20%3D1 state=Unknown cpus%3D;dev=x.y/z=a%2Cb%3Bc%3D,%C3%A4", PodAllocation{UID: "u =1", State: PodUnknown, Containers: []ContainerAllocation{
		{Name: "cpus=", Devices: []DeviceAllocation{{Resource: "x.y/z", IDs: []DeviceID{"a,b;c=", "ä"}}}}}}},
}

// TestStartedIsRead: reports of earlier agents mark init containers that have been started.
func TestStartedIsRead(t *testing.T) {
	var got PodAllocation
	if err := got.UnmarshalJSON([]byte(`"u setup:Init;started;cpus=1"`)); err != nil || got.String() != "u setup:Init;cpus=1" {
		t.Errorf("read %v, %v", &got, err)
	}
}

func TestPodAllocationText(t *testing.T) {
	for _, c := range lines {
		if got := c.pod.String(); got != c.text {
			t.Errorf("%+v: printed %q, want %q", c.pod, got, c.text)
		}
		if got, err := ParsePodAllocation(c.text); err != nil || !reflect.DeepEqual(got, c.pod) {
			t.Errorf("%q: read %+v, error %v, want %+v", c.text, got, err, c.pod)
		}
	}
}

func TestPodAllocationTextRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the UID of a pod first"},
		{" u", "the UID of a pod first"},
		{"u%2", "the UID of a pod first"},
		{"u pod=", `"pod="`},
		{"u  main", `""`},
		{"u main pod=a/b", `"pod=a/b"`},
		{"u state=Ended state=Ended", `"state=Ended"`},
		{"u main state=Ended", `"state=Ended"`},
		{"u gen=", `"gen="`},
		{"u gen=0", `"gen=0"`},
		{"u gen=02", `"gen=02"`},
		{"u gen=-1", `"gen=-1"`},
		{"u gen=2 gen=3", `"gen=3"`},
		{"u main gen=2", `"gen=2"`},
		{"u gen=18446744073709551616", `"gen=18446744073709551616"`},
		{"u * *", `"*"`},
		{"u main *;cpus=1", `"*;cpus=1"`},
		{"u main:", `"main:"`},
		{"u main;cpus=", `"main;cpus="`},
		{"u main;cpus=1;cpus=2", `"main;cpus=1;cpus=2"`},
		{"u main;shares=", `shares=`},
		{"u main;shares=0:x", `shares=0:x`},
		{"u main;shares=00:1", `shares=00:1`},
		{"u main;shares=0:1;shares=1:1", `"main;shares=0:1;shares=1:1"`},
		{"u main;exclusive=", `"main;exclusive="`},
		{"u main;gpus=1", `"main;gpus=1"`},
		{"u main;started=1", `"main;started=1"`},
		{"u main;dev=x.y/z", `"main;dev=x.y/z"`},
		{"u main;dev=x.y/z=a,,b", `"main;dev=x.y/z=a,,b"`},
		{"u main;", ""},
		{"u " + strings.Repeat("=", 1000), "==..."},
	} {
		_, err := ParsePodAllocation(c.text)
		if c.want == "" {
			if err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%q: got error %v, want one with %q", c.text, err, c.want)
		}
	}
}

// TestPodAllocationJSON: a line that cannot be parsed does not prevent the reading of the other
// lines, and its text is kept.
func TestPodAllocationJSON(t *testing.T) {
	const text = `{"spec":{"machine":"m","authority":"kubelet","kubeletVersion":"v1.36.3"},"status":{"pods":["u-1 main;cpus=1",{"uid":"old"},"u-2 ;",""]}}`
	var nt NodeTopology
	if err := json.Unmarshal([]byte(text), &nt); err != nil {
		t.Fatal(err)
	}
	want := []PodAllocation{{UID: "u-1", Containers: []ContainerAllocation{{Name: "main", CPUs: "1"}}}, {Malformed: `{"uid":"old"}`}, {Malformed: "u-2 ;"}, {Malformed: `""`}}
	if !reflect.DeepEqual(nt.Status.Pods, want) {
		t.Errorf("got %+v, want %+v", nt.Status.Pods, want)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	var converted NodeTopology
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &converted); err != nil || !reflect.DeepEqual(converted.Status.Pods, want) {
		t.Errorf("converted: got %+v, error %v", converted.Status.Pods, err)
	}
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&nt)
	if err != nil || back["status"].(map[string]any)["pods"].([]any)[0] != "u-1 main;cpus=1" {
		t.Errorf("got %v, error %v", back, err)
	}
}

func FuzzParsePodAllocation(f *testing.F) {
	for _, c := range lines {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePodAllocation(text)
		if err != nil {
			return
		}
		again, err := ParsePodAllocation(p.String())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q: read %+v, printed %q, read again %+v, error %v", text, p, p.String(), again, err)
		}
	})
}
