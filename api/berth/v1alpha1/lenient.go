package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"
)

// UnmarshalJSON implements json.Unmarshaler. An object of another form, as another release may have
// stored it, is no error as long as its metadata can be read: one must not keep a reader from the
// others of a list. Malformed then says what is wrong.
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
