package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/hollow"
)

// stopTime is how long containers take to stop.
const stopTime = 200 * time.Millisecond

// machine is the machine of the nodes: two NUMA nodes of 12 CPUs. CPU 0 is reserved.
const machine = "package:2 numa:1 core:12 pu:1 mem:32Gi dist:10,21"

// threaded is a machine with two threads per core.
const threaded = "package:2 numa:1 core:6 pu:2 mem:32Gi dist:10,21"

const kubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
reservedSystemCPUs: "0"
`

// specs returns three nodes where the kubelet decides and three where Berth does. Together they
// have 138 CPUs, for quotaCPUs of the tenant and some 40 of the friendly load.
func specs() (all []hollow.Spec) {
	for i, policy := range []string{"single-numa-node", "restricted", "best-effort"} {
		all = append(all, hollow.Spec{Name: fmt.Sprint("k", i), Machine: machine, StopTime: stopTime,
			KubeletConfig: kubelet + "cpuManagerPolicy: static\ntopologyManagerPolicy: " + policy + "\n"})
	}
	for i, m := range []string{machine, threaded, machine} {
		all = append(all, hollow.Spec{Name: fmt.Sprint("b", i), Machine: m, StopTime: stopTime, KubeletConfig: kubelet, NRI: true})
	}
	return all
}

func nodeNames() (all []string) {
	for _, s := range specs() {
		all = append(all, s.Name)
	}
	return all
}

// notReady explains why a NodeTopology is not Ready; "" if it is Ready.
func notReady(of *unstructured.Unstructured) (reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(of.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == v1alpha1.ConditionReady {
			if c["status"] == string(metav1.ConditionTrue) {
				return "", ""
			}
			return fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
		}
	}
	return "Silent", "it says nothing about Ready"
}
