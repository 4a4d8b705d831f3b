package kubeletstate

import (
	"encoding/json"
	"maps"
	"slices"
)

// AdmittedState is the content of an allocated_pods_state: the pods whose admission the kubelet has
// finished. The kubelet writes it right after each admission (pkg/kubelet/allocation,
// allocation_manager.go AddPod; by default since Kubernetes 1.33, with the feature gate
// InPlacePodVerticalScaling). The other checkpoints contain all allocations of the pods in this
// file. The file may contain deleted pods until the next admission.
type AdmittedState struct {
	// UIDs are the UIDs of the pods, ascending. A static pod has the UID of its manifest.
	UIDs []string
}

// Has reports whether the kubelet has admitted a pod.
func (s *AdmittedState) Has(uid string) bool {
	_, ok := slices.BinarySearch(s.UIDs, uid)
	return ok
}

type admittedFile struct {
	Data     string `json:"data"`
	Checksum uint64 `json:"checksum"`
}

// admittedData does not read the requests of the containers, because the API has them.
type admittedData struct {
	Entries map[string]json.RawMessage `json:"entries"`
}

// ParseAdmitted parses an allocated_pods_state of Kubernetes 1.33 to 1.37. The error is an *Error
// that contains name as the file's name.
func ParseAdmitted(name string, data []byte) (*AdmittedState, error) {
	f := file(name)
	var in admittedFile
	if err := decode(data, &in); err != nil {
		return nil, f.broken("", err, "the JSON of an allocated_pods_state")
	}
	if in.Checksum != uint64(sumText(in.Data)) {
		return nil, f.checksum("checksum", in.Checksum, sumText(in.Data))
	}
	var inner admittedData
	if err := decode([]byte(in.Data), &inner); err != nil {
		return nil, f.broken("data", err, "the JSON of an allocation checkpoint")
	}
	return &AdmittedState{UIDs: slices.Sorted(maps.Keys(inner.Entries))}, nil
}
