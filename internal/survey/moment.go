package survey

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// Moment has the data about one node at one moment.
type Moment struct {
	Taken time.Time
	// Where describes the data for users.
	Where      string
	StaleAfter time.Duration
	// Node is nil if it is not known.
	Node *corev1.Node
	// Report is the node's NodeTopology. Pods are the node's pods and other pods of interest.
	Report metav1.Object
	Pods   []*corev1.Pod
}

// Write writes the moment in the format of Snapshot, which Open reads. The file says that the agent
// is alive.
func (m *Moment) Write(w io.Writer) error {
	out := still{Kind: stillKind, Version: stillVersion, Taken: m.Taken.UTC(), Where: m.Where, StaleAfter: m.StaleAfter.String()}
	if m.Node != nil {
		out.Nodes = append(out.Nodes, slimNode(m.Node))
	}
	if m.Report != nil {
		raw, err := json.Marshal(m.Report)
		if err != nil {
			return err
		}
		now := metav1.NewMicroTime(m.Taken)
		out.Reports = append(out.Reports, raw)
		out.Leases = append(out.Leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(m.Report.GetName())}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
		})
	}
	for _, pod := range m.Pods {
		out.Pods = append(out.Pods, slimPod(pod))
	}
	packed := gzip.NewWriter(w)
	return errors.Join(json.NewEncoder(packed).Encode(&out), packed.Close())
}
