package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// After a power failure, a machine may start before its API server, and its containers must still
// start as decided. If the Node's labels set the authority or the enforcer, the agent therefore
// stores a copy of these labels.

// rememberedFile is the file with this copy.
var rememberedFile = stateFile{"decider.json", 4 << 10}

// remembered has the last values of a node's labels.
type remembered struct {
	Node      string             `json:"node"`
	Authority v1alpha1.Authority `json:"authority"`
	Enforcer  v1alpha1.Enforcer  `json:"enforcer,omitempty"`
}

func (r *remembered) sane() bool {
	return (r.Authority == v1alpha1.AuthorityKubelet || r.Authority == v1alpha1.AuthorityBerth) &&
		(r.Enforcer == "" || r.Enforcer == v1alpha1.EnforcerAgent || r.Enforcer == v1alpha1.EnforcerKoordlet)
}

// recall reads the last values of the node's labels. The error wraps fs.ErrNotExist if nothing is
// stored. A file that the agent cannot have written is also an error.
func recall(dir, node string) (remembered, error) {
	var r remembered
	name, text, err := rememberedFile.read(dir)
	if err != nil {
		return r, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return remembered{}, fmt.Errorf("%s: %.200q: %w: want a file that the agent wrote", name, text, err)
	}
	if r.Node != node {
		return remembered{}, fmt.Errorf("%s: node %.100q: want %q", name, r.Node, node)
	}
	if !r.sane() {
		return remembered{}, fmt.Errorf("%s: authority %.100q, enforcer %.100q: want authority \"kubelet\" or \"berth\", and enforcer \"agent\", \"koordlet\" or \"\"",
			name, r.Authority, r.Enforcer)
	}
	return r, nil
}

// remember stores the values of the node's labels, unless they are already stored.
func remember(dir string, r remembered) error {
	if old, err := recall(dir, r.Node); err == nil && old == r {
		return nil
	}
	return rememberedFile.write(dir, r)
}

// ours reports whether the agent itself carries out decisions on the node. While the Node is not
// known, it uses the stored labels.
func (e *enforcer) ours() (bool, error) {
	node := e.node()
	ours, err := e.opts.enforces(node)
	e.asking.Lock()
	defer e.asking.Unlock()
	switch {
	case e.opts.StateDir == "" || e.opts.Authority != ByLabel && e.opts.Enforcer != EnforcerByLabel:
	case node == nil:
		return e.oursOnce(err)
	case err == nil:
		e.note(node)
	}
	return ours, err
}

// oursOnce does what ours does while the Node is not known: it uses the stored labels. If no usable
// labels are stored, it returns the error in the argument unknown.
func (e *enforcer) oursOnce(unknown error) (bool, error) {
	if unknown == nil { // the flags decide without labels
		return e.opts.enforces(nil)
	}
	r, err := recall(e.opts.StateDir, e.opts.Node)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && e.complained != err.Error() {
			e.complained = err.Error()
			e.opts.Log.Warn("the stored labels of the node cannot be used", "error", err)
		}
		return false, unknown
	}
	labels := map[string]string{AuthorityLabel: string(r.Authority), EnforcerLabel: string(r.Enforcer)}
	node := &corev1.Node{}
	node.Name, node.Labels = r.Node, labels
	return e.opts.enforces(node)
}

func (e *enforcer) note(node *corev1.Node) {
	r := remembered{Node: node.Name, Authority: v1alpha1.AuthorityKubelet}
	if a := node.Labels[AuthorityLabel]; a != "" {
		r.Authority = v1alpha1.Authority(a)
	}
	r.Enforcer = v1alpha1.Enforcer(node.Labels[EnforcerLabel])
	if r == e.noted || !r.sane() {
		return
	}
	err := remember(e.opts.StateDir, r)
	if err == nil {
		e.noted = r
	} else if e.complained != err.Error() {
		e.complained = err.Error()
		e.opts.Log.Warn("the node's labels cannot be stored: if the API server is down when the agent starts, it will not carry out decisions", "error", err)
	}
}
