package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/lenient"
)

// UnmarshalJSON implements json.Unmarshaler. If the object does not fit the types, UnmarshalJSON
// puts the error into Malformed and returns nil, so that one such object does not make a whole list
// unreadable. The schema of the custom resource definition does not describe the template, so the
// template can contain any value.
func (r *Reservation) UnmarshalJSON(data []byte) error {
	type object Reservation
	var whole object
	var part struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              json.RawMessage `json:"spec"`
	}
	malformed, err := lenient.Read(data, &whole, &part)
	if err != nil {
		return err
	}
	if *r = Reservation(whole); malformed != "" {
		*r = Reservation{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Malformed: malformed}
		if name, ok := schedulerIn(part.Spec); ok {
			r.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: name}}
		}
	}
	return nil
}

// schedulerIn returns template.spec.schedulerName of a Reservation's spec, whose other fields may
// have any form. ok is false if template, template.spec or schedulerName does not have its type.
func schedulerIn(spec json.RawMessage) (name string, ok bool) {
	node := spec
	for _, key := range []string{"template", "spec", "schedulerName"} {
		var fields map[string]json.RawMessage
		if node != nil && json.Unmarshal(node, &fields) != nil {
			return "", false
		}
		node = fields[key]
	}
	return name, node == nil || json.Unmarshal(node, &name) == nil
}
