package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
)

// tornAfter is how long a restarted kubelet may take until its node is Ready.
const tornAfter = 15 * time.Second

// mender repairs nodes as the agents' messages tell an administrator to do. A kubelet that was
// killed between two writes of its CPU or memory manager does not start again (docs/scope.md), and
// without its node a gang that fits cannot run.
type mender struct {
	*cluster
	out        io.Writer
	startAgain func(node string) error
	// unproved are the nodes whose kubelet was restarted and that have not been Ready since, with
	// the time of the next check.
	unproved map[string]time.Time
	mended   int
}

// expect records that a node's kubelet starts now.
func (m *mender) expect(node string) { m.unproved[node] = time.Now().Add(tornAfter) }

// mend checks the nodes that are due, and repairs them if their report asks for it.
func (m *mender) mend(ctx context.Context) error {
	for name, next := range m.unproved {
		if time.Now().Before(next) {
			continue
		}
		report, err := m.Objects.Resource(v1alpha1.NodeTopologies).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node, err := m.Node(name)
		if err != nil {
			return err
		}
		m.expect(name)
		ready, message := readyOf(report)
		if ready && node.Ended() == nil {
			delete(m.unproved, name)
		}
		for _, file := range []string{kubeletstate.CPUFile, kubeletstate.MemoryFile} {
			if !strings.Contains(message, "remove "+file) {
				continue
			}
			fmt.Fprintf(m.out, "node %s: its kubelet was killed between two writes: %s\n", name, message)
			if err := m.restartWithout(name, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// restartWithout starts a kubelet without the checkpoint that keeps it from starting.
func (m *mender) restartWithout(name, file string) error {
	node, err := m.Node(name)
	if err != nil {
		return err
	}
	node.Kill()
	if err := os.Remove(node.Dir.Checkpoint(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.mended++
	return m.startAgain(name)
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
