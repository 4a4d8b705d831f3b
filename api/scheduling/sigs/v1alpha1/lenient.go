package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/lenient"
)

// UnmarshalJSON implements json.Unmarshaler. If UnmarshalJSON can read only the metadata and the
// status, it puts the error into Malformed and returns nil, so that one such object does not make a
// whole list unreadable.
func (g *PodGroup) UnmarshalJSON(data []byte) error {
	type object PodGroup
	var whole object
	var part struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            PodGroupStatus `json:"status"`
	}
	malformed, err := lenient.Read(data, &whole, &part)
	if err != nil {
		return err
	}
	if *g = PodGroup(whole); malformed != "" {
		*g = PodGroup{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Status: part.Status, Malformed: malformed}
	}
	return nil
}
