// Package cpuoracle compares placement/cpu with the genuine static CPU manager of the kubelet
// (k8s.io/kubernetes/pkg/kubelet/cm/cpumanager). Both get the same random machines, options and
// pods. Every hint, CPU set and refusal must be equal. It has tests only.
package cpuoracle
