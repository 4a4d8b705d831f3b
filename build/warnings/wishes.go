package main

import (
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/berth-dev/berth/internal/wire"
)

// wish is one validation of an annotation. Expressions are CEL of a pod p and of the annotation's
// value V.
type wish struct {
	Key string
	// Absent is the value of a pod without the annotation.
	Absent string
	Right  string
	// Want describes a correct value, as the scheduler does; WantCEL replaces Want if it depends on
	// p.
	Want, WantCEL string
	// Shown is the shown part of the value; "" means V.
	Shown string
}

const (
	strengths   = `, then nothing, ",required" or ",preferred"`
	name        = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	to64        = "([1-9]|[1-5][0-9]|6[0-4])"
	names       = "(V.startsWith('preferred:') ? V.substring(10) : V).split(',')"
	wantMinimum = "how many pods of the gang start together: a whole number from 1 to 4096"
	noMinimum   = "'berth.dev/gang' in A && !('berth.dev/gang-minimum' in A)"
	inGang      = "(['berth.dev/gang', 'scheduling.k8s.io/group-name', 'scheduling.volcano.sh/group-name', 'gang.scheduling.koordinator.sh/name'].exists(g, g in A)" +
		" || ['scheduling.x-k8s.io/pod-group', 'pod-group.scheduling.sigs.k8s.io'].exists(g, g in p.?metadata.labels.orValue(dyn({}))))"
)

// wishes are in the order of the API server's checks.
var wishes = slices.Concat(
	[]wish{
		{Key: "policy", Absent: "none", Right: "V.matches('^(none|best-effort|restricted|single-numa-node)(,|$)')",
			Want: `none, best-effort, restricted or single-numa-node, then nothing or ",scope=container" or ",scope=pod"`},
		{Key: "policy", Absent: "none", Right: "V.matches('^[^,]*(,scope=(container|pod))?$') || !V.matches('^(none|best-effort|restricted|single-numa-node)(,|$)')",
			Want: `"scope=container" or "scope=pod" after the comma`},
		{Key: "gang", Absent: "x", Right: "V.size() <= 253 && V.matches('" + name + "')", Want: "the name of a gang: lower case letters, digits, '-' and '.'"},
		{Key: "gang-minimum", Absent: "1", Right: "!(" + noMinimum + ") && V.matches('^[+]?0*([1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-6])$')",
			Want: wantMinimum, WantCEL: "(" + noMinimum + " ? 'it beside berth.dev/gang: ' : '') + '" + wantMinimum + "'", Shown: "(" + noMinimum + " ? '' : V)"},
	},
	matesWishes("gang-same-numa-node", false), matesWishes("gang-other-numa-node", true),
	[]wish{
		{Key: "cpus", Absent: "shares", Right: "V.matches('^(shares|(full-cores|spread)(,required|,preferred)?)$')", Want: "shares, or full-cores or spread" + strengths},
		{Key: "exclusive", Absent: "core", Right: "V.matches('^(core|numa)(,required|,preferred)?$')", Want: "core or numa" + strengths},
		{Key: "l3", Absent: "preferred", Right: "V.matches('^(required|preferred)$')", Want: "required or preferred"},
		{Key: "memory", Absent: "pinned", Right: "V == 'pinned'", Want: "pinned"},
		{Key: "numa-nodes", Absent: "1", Right: "V.matches('^" + to64 + "$')", Want: "a number of NUMA nodes, 1 to 64"},
		{Key: "numa-nodes", Absent: "1", Right: "V == '1' || !V.matches('^" + to64 + "$') || !string(A[?'berth.dev/policy'].orValue('')).matches('^single-numa-node(,scope=(container|pod))?$')",
			Want: "1 beside the policy single-numa-node, or another policy"},
		{Key: "devices", Absent: "same-switch", Right: "V.matches('^((same|one)-(switch|root)(,required|,preferred)?|perNUMANode=" + to64 + ")$')",
			Want: "same-switch, same-root, one-switch or one-root" + strengths + "; or perNUMANode=1 to perNUMANode=64"},
		{Key: "functions", Absent: "one-per-card", Right: "V == 'one-per-card'", Want: "one-per-card"},
		{Key: "claims", Absent: "near", Right: "V.matches('^(near|required)$')", Want: "near or required"},
	},
)

// matesWishes are the validations of names of other pods of the gang.
func matesWishes(key string, all bool) []wish {
	star := ""
	if all {
		star = "n.trim() == '*' || "
	}
	return []wish{
		{Key: key, Absent: "x", Right: "!('berth.dev/" + key + "' in A) || " + inGang, Want: "nothing on a pod of no gang"},
		{Key: key, Absent: "x", Right: names + ".size() <= 64", Want: "at most 64 names of pods"},
		{Key: key, Absent: "x", Right: names + ".size() > 64 || " + names + ".all(n, " + star + "n.trim().size() <= 253 && n.trim().matches('" + name + "'))",
			Want: `names of pods of the gang with commas between them, perhaps after "preferred:"`},
	}
}

// in inserts the annotations and the value into an expression.
func (w *wish) in(expression string) string {
	const annotations = "p.?metadata.annotations.orValue(dyn({}))"
	value := "string(" + annotations + "[?'" + wire.OwnPrefix + w.Key + "'].orValue('" + w.Absent + "'))"
	var out strings.Builder
	for i := 0; i < len(expression); i++ {
		c := expression[i]
		alone := (i == 0 || !isWord(expression[i-1])) && (i+1 == len(expression) || !isWord(expression[i+1]))
		switch {
		case c == 'V' && alone:
			out.WriteString(value)
		case c == 'A' && alone:
			out.WriteString(annotations)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '\'' || c == '-'
}

// Wrong returns the list of the pods' errors, in CEL.
func (w *wish) Wrong() string {
	shown, want := w.Shown, w.WantCEL
	if shown == "" {
		shown = "V"
	}
	if want == "" {
		want = quote(w.Want)
	}
	clipped := "(" + shown + ".size() > 64 ? " + shown + ".substring(0, 64) + '...' : " + shown + ")"
	return "variables.fresh.filter(p, !(" + w.in(w.Right) + ")).map(p, variables.at + 'metadata.annotations[" + wire.OwnPrefix + w.Key + "]: \"' + " +
		w.in(clipped) + " + '\": want ' + " + w.in(want) + ")"
}

// Message is the message if the value is too long to be shown.
func (w *wish) Message() string {
	return strings.ReplaceAll("metadata.annotations["+wire.OwnPrefix+w.Key+"]: want "+w.Want, `"`, `\"`)
}

type wishesAbout struct {
	Templates      bool
	Common, At     string
	Keys           string
	Families       []family
	Wishes         []wish
	Name, Fail, Do string
}

// writeWishes writes the policy about values that Berth cannot read: of pods, which are refused, or
// of templates, about which the API server warns.
func writeWishes(templates bool) error {
	var keys []string
	for _, key := range wire.PodKeys() {
		if key != wire.PlacementAnnotation && key != wire.BoundForAnnotation {
			keys = append(keys, key)
		}
	}
	about := wishesAbout{templates, common(), at(), list(keys), families, wishes, "placement-wishes.berth.dev", "Fail", "Deny"}
	if templates {
		about.Name, about.Fail, about.Do = "template-wishes.berth.dev", "Ignore", "Warn"
	}
	return wishesPolicy.Execute(os.Stdout, about)
}

var wishesPolicy = template.Must(template.New("").Parse(`# Generated by make generate from build/warnings/wishes.go; do not edit.
#
{{- if .Templates}}
# What placement-wishes.berth.dev refuses of a pod is warned about when it is written into a template of pods: the controller
# of the object could make none of them.
{{- else}}
# What a pod says to Berth is refused when it is written and Berth could not read it: otherwise it would be Pending, with the
# reason in an event, or be placed as if it had said nothing. The API server's answer names the field, the value and what would
# be right. What only the scheduler can know, as the names of other pods of a gang, it says itself.
{{- end}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{.Name}}
spec:
  failurePolicy: {{.Fail}}
  matchConstraints:
    resourceRules:
{{- if .Templates}}
{{- range .Families}}
    - apiGroups: ["{{.Group}}"]
      apiVersions: ["*"]
      resources: [{{.Resources}}]
      operations: [CREATE, UPDATE]
{{- end}}
{{- else}}
    - apiGroups: [""]
      apiVersions: ["*"]
      resources: [pods]
      operations: [CREATE, UPDATE]
  matchConditions:
  - name: says-something
    expression: >-
      object.?metadata.annotations.hasValue() && {{.Keys}}.exists(k,
      k in object.metadata.annotations && (oldObject == null || oldObject.?metadata.annotations[k] != optional.of(object.metadata.annotations[k])))
{{- end}}
  variables:
{{- if .Templates}}
{{.Common}}  - name: fresh # whose wishes are new
    expression: >-
      variables.pods.filter(p, {{.Keys}}.exists(k, p.?metadata.annotations[k].hasValue()
      && !variables.podsBefore.exists(b, b.?metadata.annotations[k] == p.?metadata.annotations[k])))
  - name: at
    expression: >-
      {{.At}}
{{- else}}
  - name: fresh
    expression: "[dyn(object)]"
  - name: at
    expression: "''"
{{- end}}
{{- range $i, $w := .Wishes}}
  - name: wrong{{$i}}
    expression: >-
      {{$w.Wrong}}
{{- end}}
  validations:
{{- range $i, $w := .Wishes}}
  - expression: "variables.wrong{{$i}} == []"
    message: "{{$w.Message}}"
    messageExpression: "variables.wrong{{$i}}[0]"
{{- end}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{.Name}}
spec:
  policyName: {{.Name}}
  validationActions: [{{.Do}}]
`))
