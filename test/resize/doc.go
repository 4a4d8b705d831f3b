// Package resize is a load of pods that are resized in place on nodes with authority berth. It
// patches 200 pods as the Vertical Pod Autoscaler does, while agents and the scheduler are killed.
// It also sends requests that must be refused: no CPUs, more CPUs than the machine has, and
// decisions of an older generation.
package resize
