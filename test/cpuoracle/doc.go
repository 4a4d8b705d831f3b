// Package cpuoracle holds placement/cpu against the genuine static CPU manager of the kubelet
// (k8s.io/kubernetes/pkg/kubelet/cm/cpumanager): the same random machines, options and pods, and
// every hint, CPU set and refusal must be equal. It has tests only.
package cpuoracle
