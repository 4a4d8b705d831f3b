package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/lenient"
)

// UnmarshalJSON implements json.Unmarshaler. If UnmarshalJSON can read only the metadata, it puts
// the error into Malformed and returns nil, so that one such object does not make a whole list
// unreadable.
func (o *Numatopology) UnmarshalJSON(data []byte) error {
	type object Numatopology
	var whole object
	var part struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	malformed, err := lenient.Read(data, &whole, &part)
	if err != nil {
		return err
	}
	if *o = Numatopology(whole); malformed != "" {
		*o = Numatopology{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Malformed: malformed}
	}
	return nil
}
