// Package viewcheck compares placement.ViewOf with cAdvisor itself, run over captures of real
// machines, and with what kubelets on captured servers have recorded of it.
package viewcheck
