package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// classed is a pod that names a RuntimeClass, and that the API server has not created yet. The
// other fields are those of validator.
type classed struct {
	object, at string
	pod        *corev1.Pod
}

// class reads a RuntimeClass.
func (r *reader) class(h *head, doc []byte) error {
	if len(r.classes) == MaxPods {
		return &wire.FieldError{Object: h.object(), Field: "metadata.name", Value: h.Name, Want: fmt.Sprintf("at most %d RuntimeClasses", MaxPods)}
	}
	c := new(nodev1.RuntimeClass)
	if err := (&objectReader{h, doc, r}).into(c); err != nil {
		return err
	}
	r.classes[c.Name] = c
	return nil
}

// addClasses adds to pods the overhead and the scheduling of their RuntimeClasses, as the API
// server does when it creates a pod (plugin/pkg/admission/runtimeclass). If a pod's RuntimeClass is
// not in the input, addClasses adds a note.
func (r *reader) addClasses() error {
	for i := range r.classed {
		c := &r.classed[i]
		name := *c.pod.Spec.RuntimeClassName
		if class, known := r.classes[name]; known {
			if err := c.add(class); err != nil {
				return err
			}
		} else if len(c.pod.Spec.Overhead) == 0 {
			r.ignored = append(r.ignored, fmt.Sprintf("%s: %sspec.runtimeClassName: an overhead or node selector of RuntimeClass %s does not count: want the RuntimeClass in the files too (kubectl get runtimeclass %[3]s -o yaml)", c.object, c.at, name))
		}
	}
	return nil
}

// add adds what the class has to the pod. It returns an error if the API server would refuse the
// pod.
func (c *classed) add(class *nodev1.RuntimeClass) error {
	v, spec := validator{object: c.object, at: c.at}, &c.pod.Spec
	var overhead corev1.ResourceList
	if class.Overhead != nil {
		overhead = class.Overhead.PodFixed
	}
	for _, r := range slices.Sorted(maps.Keys(spec.Overhead)) {
		if has, want := spec.Overhead[r], overhead[r]; has.Cmp(want) != 0 {
			v.fail("spec.overhead["+string(r)+"]", has.String(), want.String()+" as in RuntimeClass "+class.Name+", or no overhead")
		}
	}
	spec.Overhead = maps.Clone(overhead)
	if s := class.Scheduling; s != nil {
		for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
			if has, set := spec.NodeSelector[key]; set && has != s.NodeSelector[key] {
				v.fail("spec.nodeSelector["+key+"]", has, s.NodeSelector[key]+" as in RuntimeClass "+class.Name+", or nothing")
			}
		}
		selector := map[string]string{}
		maps.Copy(selector, spec.NodeSelector)
		maps.Copy(selector, s.NodeSelector)
		spec.NodeSelector, spec.Tolerations = selector, slices.Concat(spec.Tolerations, s.Tolerations)
	}
	if len(v.errs) > 0 {
		return errors.Join(v.errs...)
	}
	return validate(c.object, c.at, c.pod)
}
