// Package resize plays pods that are resized in place on nodes that obey: 200 pods, patched as the
// Vertical Pod Autoscaler patches them, while agents and the scheduler are killed. It also asks for
// what must be refused: no CPUs, more than the machine has, decisions of an older generation.
package resize
