package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"
)

// UnmarshalJSON implements json.Unmarshaler. Another release of Berth may have stored the object in
// another form. If UnmarshalJSON can read only the metadata, it puts the error into Malformed and
// returns nil, so that one such object does not make a whole list unreadable.
func (n *NodeTopology) UnmarshalJSON(data []byte) error {
	type object NodeTopology
	var o object
	err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &o)
	if err == nil {
		*n = NodeTopology(o)
		return nil
	}
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if json.Unmarshal(data, &head) != nil {
		return err
	}
	*n = NodeTopology{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Malformed: err.Error()}
	return nil
}
