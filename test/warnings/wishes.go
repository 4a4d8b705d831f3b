package warnings

import (
	"slices"
	"strings"
	"text/template"

	"github.com/berth-dev/berth/internal/wire"
)

// wish is one validation of an annotation, or of a label. Its expressions are in CEL. They use the
// pod p, its annotations A, and the value V.
type wish struct {
	// Key is the part after OwnPrefix, or the complete key of another project, which contains a
	// dot.
	Key   string
	Label bool
	// Outer means that the key is on a PodGroup, or on an object whose controller copies it to one.
	Outer bool
	// Absent is the value that stands for a missing annotation.
	Absent string
	Right  string
	// Want describes a correct value, in the scheduler's words. WantCEL replaces Want if the text
	// depends on p.
	Want, WantCEL string
	// Shown is the part of the value that the message shows. "" means V.
	Shown string
}

const (
	strengths   = `, optionally followed by ",required" or ",preferred"`
	name        = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	to64        = "([1-9]|[1-5][0-9]|6[0-4])"
	names       = "(V.startsWith('preferred:') ? V.substring(10) : V).split(',')"
	wantMinimum = "the number of pods of the gang that start together, from 1 to 4096"
	noMinimum   = "'berth.dev/gang' in A && !('berth.dev/gang-minimum' in A)"
	inGang      = "(['berth.dev/gang', 'scheduling.k8s.io/group-name', 'scheduling.volcano.sh/group-name', 'gang.scheduling.koordinator.sh/name'].exists(g, g in A)" +
		" || ['scheduling.x-k8s.io/pod-group', 'pod-group.scheduling.sigs.k8s.io'].exists(g, g in p.?metadata.labels.orValue(dyn({}))))"
)

// wishes are in the order of the API server's checks.
var wishes = slices.Concat(
	[]wish{
		{Key: "policy", Absent: "none", Right: "V.matches('^(none|best-effort|restricted|single-numa-node)(,|$)')",
			Want: `none, best-effort, restricted or single-numa-node, optionally followed by ",scope=container" or ",scope=pod"`},
		{Key: "policy", Absent: "none", Right: "V.matches('^[^,]*(,scope=(container|pod))?$') || !V.matches('^(none|best-effort|restricted|single-numa-node)(,|$)')",
			Want: `"scope=container" or "scope=pod" after the comma`},
		{Key: "gang", Absent: "x", Right: "V.size() <= 253 && V.matches('" + name + "')", Want: "the name of a gang: lower case letters, digits, '-' and '.'"},
		{Key: "gang-minimum", Absent: "1", Right: "!(" + noMinimum + ") && V.matches('^[+]?0*([1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-6])$')",
			Want: wantMinimum, WantCEL: "(" + noMinimum + " ? 'this annotation next to berth.dev/gang: ' : '') + '" + wantMinimum + "'", Shown: "(" + noMinimum + " ? '' : V)"},
	},
	matesWishes("gang-same-numa-node", false), matesWishes("gang-other-numa-node", true),
	[]wish{
		{Key: "cpus", Absent: "shares", Right: "V.matches('^(shares|(full-cores|spread)(,required|,preferred)?)$')", Want: "shares, or full-cores or spread" + strengths},
		{Key: "exclusive", Absent: "core", Right: "V.matches('^(core|numa)(,required|,preferred)?$')", Want: "core or numa" + strengths},
		{Key: "l3", Absent: "preferred", Right: "V.matches('^(required|preferred)$')", Want: "required or preferred"},
		{Key: "memory", Absent: "pinned", Right: "V == 'pinned'", Want: "pinned"},
		{Key: "numa-nodes", Absent: "1", Right: "V.matches('^" + to64 + "$')", Want: "a number of NUMA nodes, 1 to 64"},
		{Key: "numa-nodes", Absent: "1", Right: "V == '1' || !V.matches('^" + to64 + "$') || !string(A[?'berth.dev/policy'].orValue('')).matches('^single-numa-node(,scope=(container|pod))?$')",
			Want: "1 with the policy single-numa-node, or another policy"},
		{Key: "devices", Absent: "same-switch", Right: "V.matches('^((same|one)-(switch|root)(,required|,preferred)?|perNUMANode=" + to64 + ")$')",
			Want: "same-switch, same-root, one-switch or one-root" + strengths + "; or perNUMANode=1 to perNUMANode=64"},
		{Key: "functions", Absent: "one-per-card", Right: "V == 'one-per-card'", Want: "one-per-card"},
		{Key: "claims", Absent: "near", Right: "V.matches('^(near|required)$')", Want: "near or required"},
	},
)

// The API server only warns about wrong values of other projects, because their own schedulers
// accept more. The expressions check only the form of JSON. Berth cannot read the values that they
// refuse either.
const (
	w         = "[[:space:]]*"
	koordGang = "gang.scheduling.koordinator.sh/"
	koordPod  = "scheduling.koordinator.sh/"
	count     = "^[+]?0*([1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-6])$"
	unnamed   = "!('" + koordGang + "name' in A) || "
	gangName  = "the name of a gang: lower case letters, digits, '-' and '.'"
)

// words returns a regular expression for a field of a JSON object whose value is one of several
// words, or empty.
func words(field, oneOf string) string {
	return `"` + field + `"` + w + ":" + w + `("(` + oneOf + `)?"|null)`
}

// object returns a CEL expression that is true if V is a JSON object with only these fields.
func object(fields ...string) string {
	one := "(" + strings.Join(fields, "|") + ")"
	return "V.size() <= 4096 && V.matches('^" + w + "([{]" + w + "(" + one + "(" + w + "," + w + one + ")*" + w + ")?[}]|null)" + w + "$')"
}

// foreign are in the order of the API server's checks.
var foreign = slices.Concat(
	[]wish{
		{Key: "koordinator.sh/qosClass", Label: true, Right: "V in ['', 'LSE', 'LSR', 'LS', 'BE', 'SYSTEM']", Want: "LSE, LSR, LS, BE or SYSTEM"},
		{Key: koordPod + "numa-topology-spec",
			Right: object(words("numaTopologyPolicy", "None|(BestEffort|Restricted|SingleNUMANode)(PodLevel|ContainerLevel)?"), words("singleNUMANodeExclusive", "Preferred")),
			Want:  `JSON such as {"numaTopologyPolicy":"SingleNUMANode"}, with None, BestEffort, Restricted or SingleNUMANode there, and Preferred or nothing as singleNUMANodeExclusive`},
		{Key: koordPod + "resource-spec",
			Right: object(words("(required|preferred)CPUBindPolicy", "None|Default|FullPCPUs|SpreadByPCPUs"), words("preferredCPUExclusivePolicy", "None|Default|PCPULevel|NUMANodeLevel")),
			Want: `JSON such as {"requiredCPUBindPolicy":"FullPCPUs"}: None, Default, FullPCPUs or SpreadByPCPUs as requiredCPUBindPolicy or preferredCPUBindPolicy, ` +
				`and None, PCPULevel or NUMANodeLevel as preferredCPUExclusivePolicy`},
		{Key: koordPod + "device-joint-allocate",
			Right: object(`"deviceTypes"`+w+":"+w+`\\[`+w+typeWord+"("+w+","+w+typeWord+")*"+w+`\\]`, words("requiredScope", "SamePCIe")) + " && V.contains('deviceTypes')",
			Want:  `JSON such as {"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}, with gpu, rdma, fpga or xpu`},
		{Key: koordPod + "device-allocate-hint",
			Right: "V.size() <= 4096 && V.matches('^" + w + "([{]" + w + "([}]|" + typeWord + w + ":(?s:.*)[}])|null)" + w + "$')",
			Want:  `JSON by type of device, such as {"rdma":{"allocateStrategy":"ApplyForAll"}}, with gpu, rdma, fpga or xpu`},
	},
	groupNames(false, koordGang+"name", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"),
	groupNames(true, "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"),
	[]wish{
		{Key: koordGang + "min-available", Right: unnamed + "V.matches('" + count + "')", Want: "a whole number of pods from 1 to 4096"},
		{Key: koordGang + "total-number", Right: unnamed + "V == '' || V.matches('" + count + "')", Want: "a whole number of pods, from the minimum to 4096"},
		{Key: koordGang + "waiting-time", Right: unnamed + "V == '' || V.matches('^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') && V.matches('[1-9]')",
			Want: "a positive duration in Go syntax, such as 10m or 1h30m"},
		{Key: koordGang + "mode", Right: unnamed + "V in ['', 'Strict', 'NonStrict']", Want: "Strict or NonStrict"},
		{Key: koordGang + "match-policy", Right: unnamed + "V in ['', 'once-satisfied', 'waiting-and-running']",
			Want: "once-satisfied or waiting-and-running: Berth does not support only-waiting"},
		{Key: koordGang + "groups", Right: unnamed + `V == '' || V.matches('^` + w + `\\[` + w + `("[^"]*"(` + w + `,` + w + `"[^"]*")*)?` + w + `\\]` + w + `$')`,
			Want: `a JSON list of at most 64 gangs, such as ["ns/a","ns/b"]`},
		{Key: wire.VolcanoPolicyAnnotation, Right: "V in ['', 'none', 'best-effort', 'restricted', 'single-numa-node']", Want: "none, best-effort, restricted or single-numa-node"},
	},
	preemptable(false, false), preemptable(true, false), preemptable(false, true), preemptable(true, true),
)

const typeWord = `"(gpu|rdma|fpga|xpu)"`

func groupNames(label bool, keys ...string) (out []wish) {
	for _, key := range keys {
		out = append(out, wish{Key: key, Label: label, Right: "V.size() <= 253 && V.matches('" + name + "')", Want: gangName})
	}
	return out
}

func preemptable(label, outer bool) []wish {
	return []wish{{Key: wire.PreemptableKey, Label: label, Outer: outer, Right: "V.matches('^(1|t|T|TRUE|true|True|0|f|F|FALSE|false|False)$')",
		Want: "true or false: anything else counts as false, which keeps the pod from eviction"}}
}

// matesWishes returns the validations of values that name other pods of the gang.
func matesWishes(key string, all bool) []wish {
	star := ""
	if all {
		star = "n.trim() == '*' || "
	}
	return []wish{
		{Key: key, Absent: "x", Right: "!('berth.dev/" + key + "' in A) || " + inGang, Want: "this annotation only on a pod of a gang"},
		{Key: key, Absent: "x", Right: names + ".size() <= 64", Want: "at most 64 pod names"},
		{Key: key, Absent: "x", Right: names + ".size() > 64 || " + names + ".all(n, " + star + "n.trim().size() <= 253 && n.trim().matches('" + name + "'))",
			Want: `names of pods of the gang, separated by commas, optionally after "preferred:"`},
	}
}

// isForeign reports whether the key belongs to another project.
func (w *wish) isForeign() bool { return strings.Contains(w.Key, ".") }

func (w *wish) key() string {
	if w.isForeign() {
		return w.Key
	}
	return wire.OwnPrefix + w.Key
}

func (w *wish) place() string {
	if w.Label {
		return "labels"
	}
	return "annotations"
}

// in inserts the annotations and the value into an expression.
func (w *wish) in(expression string) string {
	const annotations = "p.?metadata.annotations.orValue(dyn({}))"
	value := "string(p.?metadata." + w.place() + ".orValue(dyn({}))[?'" + w.key() + "'].orValue('" + w.Absent + "'))"
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

// Wrong returns a CEL expression for the list of the pods' errors.
func (w *wish) Wrong() string {
	shown, want := w.Shown, w.WantCEL
	if shown == "" {
		shown = "V"
	}
	if want == "" {
		want = quote(w.Want)
	}
	clipped := "(" + shown + ".size() > 64 ? " + shown + ".substring(0, 64) + '...' : " + shown + ")"
	pods, at := "variables.fresh", "variables.at"
	if w.Outer {
		pods, at = "variables.outer", "(request.resource.resource == 'cronjobs' ? 'spec.jobTemplate.' : '')"
	} else if w.isForeign() {
		pods = "variables.foreign"
	}
	if w.isForeign() {
		pods += ".filter(p, '" + w.key() + "' in p.?metadata." + w.place() + ".orValue(dyn({})))"
	}
	return pods + ".filter(p, !(" + w.in(w.Right) + ")).map(p, " + at + " + 'metadata." + w.place() + "[" + w.key() + "]: \"' + " +
		w.in(clipped) + " + '\": want ' + " + w.in(want) + ")"
}

// Message returns the message for a value that is too long to be shown.
func (w *wish) Message() string {
	return strings.ReplaceAll("metadata."+w.place()+"["+w.key()+"]: want "+w.Want, `"`, `\"`)
}

// Outer returns a CEL expression for a list with the object, if its own annotations and labels
// reach a PodGroup and the request adds or changes one that counts there. Otherwise the list is
// empty.
func (*wishesAbout) Outer() string {
	const value = "?metadata[m][" + "'" + wire.PreemptableKey + "']"
	return "variables.others != [] || request.resource.resource != 'podgroups' && request.resource.group in " + list(append([]string{"scheduling.koordinator.sh"}, plain...)) + " ? []\n" +
		"      : [variables.object].filter(p, ['annotations', 'labels'].exists(m, p." + value + ".hasValue() && p." + value + " != variables.before." + value + "))"
}

// Match returns the match condition of the policy about templates, in CEL. Berth's own keys of pods
// are not among its keys, because placement-wishes.berth.dev checks them.
func (about *wishesAbout) Match() string {
	return hasKey("k in " + about.Foreign(false) + " || k in " + about.Foreign(true) + " || request.resource.resource != 'pods' && k in " + about.Keys)
}

// Foreign returns the keys of other projects, as CEL.
func (*wishesAbout) Foreign(label bool) string {
	var keys []string
	for i := range foreign {
		if foreign[i].Label == label && !foreign[i].Outer {
			keys = append(keys, foreign[i].Key)
		}
	}
	return list(keys)
}

type wishesAbout struct {
	Templates      bool
	Common, Others string
	At             string
	Keys           string
	Families       []family
	Groups         []family
	Wishes         []wish
	Name, Fail, Do string
}

// wishesPolicyOf returns the policy about values that Berth cannot read: in pods, which the API
// server refuses, or in templates, about which it warns.
func wishesPolicyOf(templates bool) string {
	var keys []string
	for _, key := range wire.PodKeys() {
		if key != wire.PlacementAnnotation && key != wire.BoundForAnnotation {
			keys = append(keys, key)
		}
	}
	about := wishesAbout{templates, common(), others(), at(), list(keys), families, groups, wishes, "placement-wishes.berth.dev", "Fail", "Deny"}
	if templates {
		about.Wishes = slices.Concat(wishes, foreign)
		about.Name, about.Fail, about.Do = "template-wishes.berth.dev", "Ignore", "Warn"
	}
	return filled(wishesPolicy, &about)
}

var wishesPolicy = template.Must(template.New("").Parse(`# Generated by make generate from test/warnings/wishes.go; do not edit.
#
{{- if .Templates}}
# Warns about values in pod templates that placement-wishes.berth.dev refuses in pods: the object's controller could create
# no pod from the template. Also warns about other projects' annotations and labels that Berth cannot read, in pods and
# PodGroups too.
{{- else}}
# Refuses pods with annotations for Berth that Berth could not read. Otherwise such a pod would be Pending, with the reason in
# an event, or would be placed as if it had no annotation. The API server's answer names the field, the value and a right
# value. The scheduler itself checks values that only it can judge, such as names of other pods of a gang.
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
    - apiGroups: [""]
      apiVersions: ["*"]
      resources: [pods]
      operations: [CREATE]` + rules(".Families") + rules(".Groups") + `
  matchConditions:
  - name: has-a-key-that-is-checked
    expression: >-
      {{.Match}}
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
{{.Common}}{{.Others}}  - name: fresh # pod templates with added or changed wishes
    expression: >-
      request.resource.resource == 'pods' ? [] : variables.pods.filter(p, {{.Keys}}.exists(k, p.?metadata.annotations[k].hasValue()
      && !variables.podsBefore.exists(b, b.?metadata.annotations[k] == p.?metadata.annotations[k])))
  - name: foreign # pods and templates with added or changed keys of other projects, unless another project's scheduler places them
    expression: >-
      variables.others != [] ? [] : variables.pods.filter(p, {{.Foreign false}}.exists(k, p.?metadata.annotations[k].hasValue()
      && !variables.podsBefore.exists(b, b.?metadata.annotations[k] == p.?metadata.annotations[k]))
      || {{.Foreign true}}.exists(k, p.?metadata.labels[k].hasValue()
      && !variables.podsBefore.exists(b, b.?metadata.labels[k] == p.?metadata.labels[k])))
  - name: outer # a PodGroup, or an object whose controller copies its own annotations and labels to one
    expression: >-
      {{.Outer}}
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
` + binding("{{.Name}}", "{{.Do}}")))
