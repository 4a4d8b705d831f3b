package wire

import "strings"

// Said has the keys that a pod uses for its requirements, if they are keys of another project. The
// zero value is for a pod that uses Berth's keys, or none.
//
// Statuses, events and explanations are written with Berth's own keys. In replaces them by the
// pod's keys.
type Said struct {
	policy, cpus, exclusive, devices, functions string
}

// In returns the text with the pod's own keys.
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
