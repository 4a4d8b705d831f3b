package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// tornAfter is how long a kubelet that has come back may take until its node is Ready.
const tornAfter = 15 * time.Second

// mendTorn does to nodes what their agents ask a person to do. A kubelet that was killed between
// two writes of its memory manager does not start again (docs/kubelet-defects.md), and without its
// node a gang that fits cannot run.
func (d *driver) mendTorn(ctx context.Context) error {
	for name, next := range d.unproved {
		if time.Now().Before(next) {
			continue
		}
		report, err := d.groups.Resource(v1alpha1.NodeTopologies).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.unproved[name] = time.Now().Add(tornAfter)
		switch ready, message := readyOf(report); {
		case ready:
			delete(d.unproved, name)
		case strings.Contains(message, "remove memory_manager_state"):
			fmt.Fprintf(d.out, "node %s: its kubelet was killed between two writes: %s\n", name, message)
			if err := d.mend(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// mend starts a kubelet without the checkpoint that keeps it from starting.
func (d *driver) mend(name string) error {
	node, err := d.Node(name)
	if err != nil {
		return err
	}
	node.Kill()
	if err := os.Remove(node.Dir.MemoryState()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.torn++
	return d.startAgain(name)
}

// readyOf reads the condition Ready of a NodeTopology.
func readyOf(report *unstructured.Unstructured) (ready bool, message string) {
	conditions, _, _ := unstructured.NestedSlice(report.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == v1alpha1.ConditionReady {
			message, _ = c["message"].(string)
			return c["status"] == string(metav1.ConditionTrue), message
		}
	}
	return false, ""
}
