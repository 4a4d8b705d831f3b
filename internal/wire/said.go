package wire

import "strings"

// Said is the key with which a pod asked for something, where that is not the key of Berth's own
// that means the same. The zero value is for a pod that asks in Berth's own words, or for nothing.
//
// Whatever says something about a pod speaks of Berth's own keys, and In puts the ones that the pod
// has in their place: in statuses, events and explanations alike.
type Said struct {
	policy, cpus, exclusive, devices, functions string
}

// In returns a text with the pod's own keys in it.
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
