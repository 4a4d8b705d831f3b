package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/lenient"
)

// UnmarshalJSON implements json.Unmarshaler. If UnmarshalJSON can read only the metadata, the
// status and spec.schedulerName, it puts the error into Malformed and returns nil, so that one such
// object does not make a whole list unreadable.
func (j *Job) UnmarshalJSON(data []byte) error {
	type object Job
	var whole object
	var part struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"spec"`
		Status JobStatus `json:"status"`
	}
	malformed, err := lenient.Read(data, &whole, &part)
	if err != nil {
		return err
	}
	if *j = Job(whole); malformed != "" {
		*j = Job{TypeMeta: part.TypeMeta, ObjectMeta: part.ObjectMeta, Status: part.Status, Malformed: malformed}
		j.Spec.SchedulerName = part.Spec.SchedulerName
	}
	return nil
}
