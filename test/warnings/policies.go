// Package warnings makes ValidatingAdmissionPolicies from the tables of internal/wire. They warn
// about annotations and labels without effect, about values that Berth cannot read, and about kinds
// that the scheduler or berth-controller does not serve. TestPolicies compares them with the files
// in deploy, and with -rewrite writes the files.
package warnings

import (
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/berth-dev/berth/internal/wire"
)

// Policies returns the policies, by their files in the folder deploy.
func Policies() map[string]string {
	return map[string]string{
		"policies/ignored-annotations.yaml": annotations(),
		"policies/placement-wishes.yaml":    wishesPolicyOf(false),
		"policies/template-wishes.yaml":     wishesPolicyOf(true),
		"policies/unserved-kinds.yaml":      unserved(false),
		"jobs/unserved-kinds.yaml":          unserved(true),
	}
}

// filled returns the policy of a template.
func filled(policy *template.Template, about any) string {
	var out strings.Builder
	if err := policy.Execute(&out, about); err != nil {
		panic(err) // the templates use only fields that their data have
	}
	return out.String()
}

// kind is annotations or labels, for one validation.
type kind struct {
	// Variable has the result of Found, a list in CEL.
	Variable, Found string
	// Message is the API server's message, in CEL. Short replaces it if the keys are too long.
	Message, Short string
}

// unserved returns the policy about kinds that the scheduler, or berth-controller, does not serve.
func unserved(ofJobs bool) string {
	about := kindsAbout{Name: "unserved-kinds.berth.dev"}
	if ofJobs {
		about.Name = "unserved-job-kinds.berth.dev"
	}
	for _, k := range wire.UnservedKinds() {
		if k.Jobs == ofJobs {
			about.Kinds = append(about.Kinds, k)
		}
	}
	return filled(kindsPolicy, about)
}

type kindsAbout struct {
	Name  string
	Kinds []wire.UnservedKind
}

// annotations returns the policy about annotations and labels without effect.
func annotations() string {
	own := "k.startsWith(" + quote(wire.OwnPrefix) + ")"
	about := policyAbout{Match: hasKey(known()), Common: common(), Others: others(), Holders: outerOf("object", "object"), HoldersBefore: outerOf("oldObject", "before"), Families: families, Groups: groups, Asks: list(wire.Asks()), Why: why(), Shared: shared(), Kinds: []kind{
		kindOf("unknown", "keys.filter(k, "+own+" && !(k in "+list(wire.PodKeys())+"))", wire.UnknownWarning, "(one of "+wire.OwnPrefix+"*)"),
		kindOf("unknownLabels", "labels.filter(k, "+own+" && !(k in "+list(wire.PodLabels())+"))", wire.UnknownLabelWarning, "(one of "+wire.OwnPrefix+"*)"),
		kindOf("misplaced", "outer.filter(k, k in "+list(wire.Asks())+")"+misplaced(), wire.MisplacedWarning, "some annotations"),
	}}
	for i, c := range wire.Companions() {
		has := quote(c.Of) + " in p.?metadata.annotations.orValue(dyn({}))"
		if c.Labels != nil {
			has = "string(p.?metadata.labels[" + quote(c.Of) + "].orValue('')) in " + list(c.Labels)
		}
		found := "keys.filter(k, k in " + list(c.Keys) + " && variables.pods.exists(p, k in p.?metadata.annotations.orValue(dyn({})) && !(" + has + "))"
		if c.Scheduler != "" {
			found += " && !(" + quote(c.Scheduler) + " in variables.others)"
		}
		about.Kinds = append(about.Kinds, kindOf(fmt.Sprintf("nameless%d", i), found+")", c.Warning, "some annotations"))
	}
	for _, d := range wire.Dialects() {
		about.Above = append(about.Above, d.Above...)
		variable := strings.ToLower(d.Name)
		about.Kinds = append(about.Kinds,
			kindOf(variable, matching(&d, false), d.Warning, "some of this object"),
			kindOf(variable+"Labels", matching(&d, true), d.LabelWarning, "some of this object"))
	}
	about.AboveList = list(about.Above)
	return filled(policy, about)
}

// plain are the groups whose controllers are not known to copy an object's own annotations to the
// PodGroup of its pods. Kubeflow's training operator, KubeRay and Volcano's Jobs copy them.
var plain = []string{
	"", "apps", "apps.kruise.io", "batch", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "argoproj.io", "sparkoperator.k8s.io", "trainer.kubeflow.org",
	"kubevirt.io", "grove.io",
}

// misplaced returns a CEL expression for the keys of dialects that are set on the object but not in
// its template. PodGroups and Reservations may have some of these keys.
func misplaced() (out string) {
	for _, d := range wire.Dialects() {
		for _, at := range []struct {
			outer, inner string
			keys         []string
		}{{"outer", "keys", d.Spoken}, {"outerLabels", "labels", d.SpokenLabels}} {
			if keys := without(at.keys, d.Records); len(keys) > 0 {
				out += "\n      + variables." + at.outer + ".filter(k, k in " + list(keys) + " && !(k in variables." + at.inner + ")" +
					" && request.resource.resource != 'podgroups' && request.resource.group != 'scheduling.koordinator.sh'" +
					" && (k != " + quote(wire.PreemptableKey) + " || request.resource.group in " + list(plain) + ") && !(" + quote(d.Scheduler) + " in variables.others))"
			}
		}
	}
	return out
}

type policyAbout struct {
	// Match is the match condition, in CEL.
	Match          string
	Common, Others string
	// Holders are the objects whose metadata does not reach pods, in CEL.
	Holders, HoldersBefore string
	Families, Groups       []family
	Kinds                  []kind
	// Asks are the annotations with which pods state requirements to Berth, in CEL.
	Asks string
	// Above are the keys that the dialects' controllers read on the pods' owners. AboveList is the
	// same list in CEL.
	Above     []string
	AboveList string
	// Why maps each key to the reason why it has no effect, in CEL.
	Why string
	// Shared are the variables and messages about pods without exclusive resources.
	Shared sharedAbout
}

// kindOf returns a kind with this warning. short replaces the warning if the keys are too long.
func kindOf(variable, found string, warning func(string) string, short string) kind {
	return kind{variable, "variables." + found, message(variable, warning), warning(short)}
}

// matching returns the keys of the dialect that have no effect, as CEL.
func matching(d *wire.Dialect, label bool) string {
	keys, spoken, elsewhere := "words", d.Spoken, without(d.SpokenLabels, d.Spoken)
	if label {
		keys, spoken, elsewhere = "wordLabels", d.SpokenLabels, without(d.Spoken, d.SpokenLabels)
	}
	var any []string
	for _, domain := range d.Domains {
		any = append(any, "('.' + k).contains("+quote("."+domain+"/")+")")
	}
	var bare []string
	for _, w := range d.Words {
		for _, key := range w.Keys {
			if !strings.Contains(key, "/") {
				bare = append(bare, key)
			}
		}
	}
	for _, key := range elsewhere { // a key in the wrong place may be outside the dialect's domains
		if !slices.ContainsFunc(d.Domains, func(domain string) bool { return strings.Contains("."+key, "."+domain+"/") }) {
			bare = append(bare, key)
		}
	}
	if len(bare) > 0 {
		any = append(any, "k in "+list(bare))
	}
	reason := "variables.why[?k].orValue(" + quote(wire.UnknownWord) + ")"
	if elsewhere = without(elsewhere, d.Records); len(elsewhere) > 0 {
		reason = "(k in " + list(elsewhere) + " ? " + quote(d.Why(elsewhere[0], label)) + " : " + reason + ")"
	}
	return keys + ".filter(k, !(" + quote(d.Scheduler) + " in variables.others) && (" + strings.Join(any, " || ") + ")" +
		" && !(k in " + list(slices.Concat(spoken, d.Records)) + ")).map(k, k + ' (' + " + reason + " + ')')"
}

func without(words, others []string) (left []string) {
	for _, w := range words {
		if !slices.Contains(others, w) {
			left = append(left, w)
		}
	}
	return left
}

// why maps each key to the reason why it has no effect, as CEL.
func why() string {
	var all []string
	for _, d := range wire.Dialects() {
		for _, w := range d.Words {
			for _, key := range w.Keys {
				all = append(all, quote(key)+": "+quote(w.Why))
			}
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// message returns the CEL of a warning that names the keys of a variable.
func message(variable string, warning func(string) string) string {
	const hole = "\x00"
	before, after, _ := strings.Cut(warning(hole), hole)
	out := quote(before) + " + variables." + variable + ".join(', ')"
	if after != "" {
		out += " + " + quote(after)
	}
	return out
}

// quote returns a text as a CEL string.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

func list(words []string) string {
	return "['" + strings.Join(words, "', '") + "']"
}

// rules returns the rules for the families in a field of a template's data.
func rules(field string) string {
	return `
{{- range ` + field + `}}
    - apiGroups: ["{{.Group}}"]
      apiVersions: ["*"]
      resources: [{{.Resources}}]
      operations: [CREATE, UPDATE]
{{- end}}`
}

// binding returns the binding of a policy.
func binding(name, action string) string {
	return `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: ` + name + `
spec:
  policyName: ` + name + `
  validationActions: [` + action + `]
`
}

var policy = template.Must(template.New("").Parse(`# Generated by make generate from internal/wire; do not edit.
#
# If somebody writes an annotation or a label that has no effect, the API server answers with a warning, and refuses nothing.
# The scheduler reports the same in an event of the pod. Pods that name a dialect's own scheduler get no warning, unless Berth
# serves that name: the chart puts the names of its profiles into the empty list of the variable others.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: ignored-annotations.berth.dev
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: ["*"]
      resources: [pods]
      operations: [CREATE]` + rules(".Families") + rules(".Groups") + `
  matchConditions:
  - name: has-a-key-of-berth-or-a-dialect
    expression: >-
      {{.Match}}
  variables:
{{.Common}}  - name: keys # of the annotations that this request adds; keys contain no commas
    expression: >-
      variables.pods.map(p, p.?metadata.annotations.orValue(dyn({})).map(k, string(k)).join(',')).join(',').split(',')
      .filter(k, k != '' && !variables.podsBefore.exists(p, k in p.?metadata.annotations.orValue(dyn({}))))
  - name: labels # keys of the labels that this request adds
    expression: >-
      variables.pods.map(p, p.?metadata.labels.orValue(dyn({})).map(k, string(k)).join(',')).join(',').split(',')
      .filter(k, k != '' && !variables.podsBefore.exists(p, k in p.?metadata.labels.orValue(dyn({}))))
  - name: holders # the object with pod templates, and objects in it whose metadata does not reach pods
    expression: >-
      {{.Holders}}
  - name: holdersBefore
    expression: >-
      oldObject == null ? [] : {{.HoldersBefore}}
  - name: outer # annotations of these objects that this request adds
    expression: >-
      variables.holders.map(p, p.?metadata.annotations.orValue(dyn({})).map(k, string(k)).join(',')).join(',').split(',')
      .filter(k, k != '' && !variables.holdersBefore.exists(p, k in p.?metadata.annotations.orValue(dyn({}))))
  - name: outerLabels
    expression: >-
      variables.holders.map(p, p.?metadata.labels.orValue(dyn({})).map(k, string(k)).join(',')).join(',').split(',')
      .filter(k, k != '' && !variables.holdersBefore.exists(p, k in p.?metadata.labels.orValue(dyn({}))))
  - name: words # all added annotations, except those of outer objects that a dialect's own controller reads
    expression: "variables.keys + variables.outer.filter(k, !(k in variables.keys) && !(k in {{.AboveList}}))"
  - name: wordLabels
    expression: "variables.labels + variables.outerLabels.filter(k, !(k in variables.labels) && !(k in {{.AboveList}}))"
{{.Others}}  - name: why
    expression: >-
      {{.Why}}
{{- range .Kinds}}
  - name: {{.Variable}}
    expression: >-
      {{.Found}}
{{- end}}
{{.Shared.Variables}}  validations:
{{- range .Kinds}}
  - expression: "variables.{{.Variable}} == []"
    message: "{{.Short}}"
    messageExpression: >-
      {{.Message}}
{{- end}}
{{.Shared.Validations}}` + binding("ignored-annotations.berth.dev", "Warn")))

var kindsPolicy = template.Must(template.New("").Parse(`# Generated by make generate from internal/wire/unserved.go; do not edit.
#
# Kinds of other projects that have no effect with Berth. If their definitions are installed, the API
# server answers with a warning when somebody creates such an object.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{.Name}}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules:
{{- range .Kinds}}
    - apiGroups: [{{.Group}}]
      apiVersions: ["*"]
      resources: [{{.Resource}}]
      operations: [CREATE]
{{- end}}
  validations:
{{- range .Kinds}}
  - expression: "request.resource.group != '{{.Group}}' || request.resource.resource != '{{.Resource}}'"
    message: "{{.Warning}}"
{{- end}}
` + binding("{{.Name}}", "Warn")))
