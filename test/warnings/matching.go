package warnings

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/wire"
)

// hasKey returns a match condition in CEL. It is true if test is true for the key k of an
// annotation or label of the object, or of its pod template. Most objects have no such key, and the
// API server evaluates the 20 to 40 validations of a policy one by one. The condition is also true
// for each kind of object whose pod templates are at another path than spec.template.
func hasKey(test string) string {
	var elsewhere []string
	for _, f := range families {
		if f.Templates != "" && !slices.Contains(elsewhere, f.Group) {
			elsewhere = append(elsewhere, f.Group)
		}
	}
	const ofCronJob = "dyn(object).?spec.jobTemplate.orValue(dyn({})), dyn(object).?spec.jobTemplate.spec.template.orValue(dyn({}))"
	return "request.resource.group in " + list(elsewhere) + " ||\n" +
		"      [dyn(object), dyn(object).?spec.template.orValue(dyn({})), " + ofCronJob + "].exists(o,\n" +
		"      ['annotations', 'labels'].exists(m, o.?metadata[m].orValue(dyn({})).exists(k, " + test + ")))"
}

// known returns a CEL expression that is true for each key of Berth or of a dialect, known or not.
func known() string {
	domains := []string{strings.TrimSuffix(wire.OwnPrefix, "/")}
	for _, d := range wire.Dialects() {
		domains = append(domains, d.Domains...)
	}
	var bare []string
	add := func(keys []string) {
		for _, key := range keys {
			covered := slices.ContainsFunc(domains, func(domain string) bool { return strings.Contains("."+key, "."+domain+"/") })
			if !covered && !slices.Contains(bare, key) {
				bare = append(bare, key)
			}
		}
	}
	for _, d := range wire.Dialects() {
		add(d.Spoken)
		add(d.SpokenLabels)
		for _, w := range d.Words {
			add(w.Keys)
		}
	}
	for _, c := range wire.Companions() {
		add(c.Keys)
	}
	return "k.matches('(^|[.])(" + strings.ReplaceAll(strings.Join(domains, "|"), ".", "[.]") + ")/') || k in " + list(bare)
}
