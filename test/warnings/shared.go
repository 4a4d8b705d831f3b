package warnings

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// sharedAbout are the variables and validations about pods whose wishes have no effect: they
// request exclusive CPUs or memory, or a layout of devices, but get neither. They implement
// wire.CPUsShared and wire.NoDevices in CEL.
type sharedAbout struct{ Variables, Validations string }

func shared() sharedAbout {
	const (
		containers = "p.?spec.containers.orValue(dyn([]))"
		inits      = "p.?spec.initContainers.orValue(dyn([]))"
		resources  = "c.?resources.orValue(dyn({}))"
		level      = "['requests', 'limits'].exists(l, p.?spec.resources[l].orValue(dyn({})).exists(k, k == 'cpu' || k == 'memory' || k.startsWith('hugepages-')))"
	)
	lacks := func(k string) string {
		return "!(r[1].?limits[?'" + k + "'].hasValue() && quantity(string(r[1].limits['" + k + "'])).isGreaterThan(quantity('0')))"
	}
	differs := "['cpu', 'memory'].exists(k, r[1].?requests[?k].hasValue() && quantity(string(r[1].requests[k])).compareTo(quantity(string(r[1].limits[k]))) != 0)"
	lack := lacks("cpu") + " && " + lacks("memory") + " ? " + quote(wire.LacksBoth) + " : " + lacks("cpu") + " ? " + quote(wire.LacksCPU) + " : " +
		lacks("memory") + " ? " + quote(wire.LacksMemory) + " : " + differs + " ? " + quote(wire.RequestsLess) + " : ''"
	whole := "[quantity(string(c.?resources.limits[?'cpu'].orValue('0')))].exists(q, q.isGreaterThan(quantity('0')) && q.compareTo(quantity(string(int(q.asApproximateFloat())))) == 0)"
	asks := func(name string) string {
		return "(" + containers + " + " + inits + ").exists(c, ['requests', 'limits'].exists(l, c.?resources[l].orValue(dyn({})).exists(k, " + name + ")))"
	}
	devices, classes := asks("k.contains('/') && !k.contains('kubernetes.io/')"), asks("k.startsWith('"+resourcev1.ResourceDeviceClassPrefix+"')")
	insists := func(key, pattern string) string {
		return "[" + quote(key) + "].filter(k, string(f.a[?k].orValue('')).matches(" + quote(pattern) + "))"
	}
	cpuKeys := strings.Join([]string{
		"['koordinator.sh/qosClass'].filter(k, string(f.l[?k].orValue('')) in ['LSE', 'LSR'])",
		insists(wire.CPUsAnnotation, "^(full-cores|spread)(,required)?$"), insists(wire.ExclusiveAnnotation, "^(core|numa)(,required)?$"), insists(wire.L3Annotation, "^required$"),
		insists(wire.VolcanoPolicyAnnotation, "^(best-effort|restricted|single-numa-node)$") + ".filter(k, !('volcano' in variables.others))",
	}, " + ")
	pinKeys := insists(wire.PolicyAnnotation, "^(best-effort|restricted|single-numa-node)(,|$)") + ".filter(k, !f.devices) + " + insists(wire.MemoryAnnotation, "^pinned$")
	const hole = "\x00"
	text := func(what, why string) string {
		parts := strings.Split(wire.SharedText(what, hole, why), hole)
		return quote(parts[0]) + " + s.keys.join(', ') + " + quote(parts[1])
	}
	const listed = "(s.f.lacks.size() > 3 ? s.f.lacks[0] + ', ' + s.f.lacks[1] + ', ' + s.f.lacks[2] + ' and ' + string(s.f.lacks.size() - 3) + ' more' : s.f.lacks.join(', '))"
	noDevices := strings.Split(wire.NoDevicesText(hole), hole)
	out := sharedAbout{Variables: `  - name: facts # of each written pod: annotations, labels, and what its containers lack for QoS class Guaranteed
    expression: >-
      variables.pods.filter(p, p.?spec.containers.orValue(null) != null && !variables.podsBefore.exists(b, b == p)).map(p, {
      'a': dyn(p.?metadata.annotations.orValue(dyn({}))), 'l': dyn(p.?metadata.labels.orValue(dyn({}))),
      'lacks': dyn((` + level + ` ? [[dyn('spec.resources'), dyn(p.spec.resources)]]
      : ` + inits + `.map(c, [dyn('init container ' + string(c.name)), dyn(` + resources + `)]) + ` + containers + `.map(c, [dyn('container ' + string(c.name)), dyn(` + resources + `)]))
      .map(r, [string(r[0]), ` + lack + `]).filter(r, r[1] != '').map(r, r[0] + ' ' + r[1])),
      'level': dyn(` + level + `), 'whole': dyn(!(` + level + `) && (` + containers + ` + ` + inits + `).exists(c, ` + whole + `)),
      'devices': dyn(` + devices + `), 'claims': dyn(p.?spec.resourceClaims.orValue(dyn([])).size() > 0 || ` + classes + `)})
  - name: sharing # the keys of each pod that have no effect where a kubelet decides
    expression: >-
      variables.facts.map(f, {'f': dyn(f), 'keys': dyn((f.lacks == [] && f.whole ? [] : ` + cpuKeys + `)
      + (f.lacks == [] ? [] : ` + pinKeys + `))}).filter(s, s.keys != [])
  - name: deviceless # the keys about devices of pods that ask for no devices
    expression: >-
      variables.facts.filter(f, !f.devices && !f.claims).map(f, ['` + wire.DevicesAnnotation + `', '` + wire.FunctionsAnnotation + `', '` + wire.ClaimsAnnotation + `'].filter(k, k in f.a)).filter(l, l != [])
`}
	out.Validations = `  - expression: "variables.sharing == []"
    message: "` + wire.SharedText("CPUs", "annotations", "it is not Guaranteed, or asks for no whole CPUs") + `"
    messageExpression: >-
      variables.sharing.map(s, s.f.lacks == [] ? (s.f.level ? ` + text("CPUs", wire.OnlyWholes) + ` : ` + text("CPUs", wire.NoWholeCPUs) + `)
      : ` + text("CPUs and memory", wire.NotGuaranteedWords) + ` + ` + listed + `).join('; ')
  - expression: "variables.deviceless == []"
    message: "` + wire.NoDevicesText("annotations") + `"
    messageExpression: "'` + noDevices[0] + `' + variables.deviceless[0].join(', ') + '` + noDevices[1] + `'"
`
	return out
}
