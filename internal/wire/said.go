package wire

import "strings"

// Said has the keys with which a pod states its requirements, if they are keys of another project.
// The zero value is for a pod that uses Berth's keys, or none.
//
// The engine's texts about the pod's requirements contain Berth's own keys. Said.In replaces them
// with the pod's keys, for statuses, events and explanations.
type Said struct {
	policy, cpus, exclusive, devices, functions string
}

// In replaces Berth's keys in the text with the keys that the pod uses.
func (s Said) In(text string) string {
	if s == (Said{}) {
		return text
	}
	for _, key := range [...]struct{ own, said string }{
		{PolicyAnnotation, s.policy}, {CPUsAnnotation, s.cpus}, {ExclusiveAnnotation, s.exclusive}, {DevicesAnnotation, s.devices},
		{FunctionsAnnotation, s.functions},
	} {
		if key.said != "" {
			text = strings.ReplaceAll(text, key.own, key.said)
		}
	}
	return text
}
