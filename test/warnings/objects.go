package warnings

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/wire"
)

// family has kinds of objects with pod templates at the same path.
type family struct {
	// Group and Resources are as in a rule of a policy.
	Group, Resources string
	// Templates is a CEL expression for the list of pod templates in an object O. "" means
	// spec.template.
	Templates string
	// At is the path of a template, as in errors; "" means spec.template.
	At string
	// Outer is a CEL expression for the objects in an object O whose metadata does not reach pods.
	// "" means none.
	Outer string
}

const (
	ofTasks = "O.?spec.tasks.orValue(dyn([])).map(t, t.?template.orValue(dyn({})))"
	tasksAt = "spec.tasks[].template."

	replicated = ".replicatedJobs.orValue(dyn([])).map(j, j.?template.spec.template.orValue(dyn({})))"
	jobsAt     = "spec.replicatedJobs[].template.spec.template."

	ofJobs = ".replicatedJobs.orValue(dyn([])).map(j, j.?template.orValue(dyn({})))"

	// A clique has annotations and labels itself, and the spec of its pods in a field.
	grove = "O.?spec.template.cliques.orValue(dyn([])).map(c, dyn({'metadata': dyn(c), 'spec': dyn(c.?spec.podSpec.orValue(dyn({})))}))"

	rayAt  = "headGroupSpec/workerGroupSpecs[].template."
	argoAt = "podMetadata/templates[]."
)

// families are the kinds whose pods are checked when the object is written. For a CronJob these are
// the pods of its Jobs.
var families = []family{
	{"", "replicationcontrollers", "", "", ""},
	{"apps", "deployments, statefulsets, daemonsets, replicasets", "", "", ""},
	{"batch", "jobs, cronjobs", "", "", ""},
	{"batch.volcano.sh", "jobs, cronjobs", ofTasks, tasksAt, ""},
	{"flow.volcano.sh", "jobtemplates", ofTasks, tasksAt, ""},
	{"scheduling.koordinator.sh", "reservations", "", "", ""},
	{"jobset.x-k8s.io", "jobsets", "O.?spec" + replicated, jobsAt, "O.?spec" + ofJobs},
	{"trainer.kubeflow.org", "trainingruntimes, clustertrainingruntimes", "O.?spec.template.spec" + replicated, "spec.template." + jobsAt, runtime("O.?spec")},
	{"trainer.kubeflow.org", "trainjobs", trainJob(), "spec.podTemplateOverrides/runtimePatches[].", patches()},
	{"leaderworkerset.x-k8s.io", "leaderworkersets",
		"['leaderTemplate', 'workerTemplate'].map(n, O.?spec.leaderWorkerTemplate[n].orValue(dyn({})))", "spec.leaderWorkerTemplate.leaderTemplate/workerTemplate.", ""},
	{"kubeflow.org", "pytorchjobs, tfjobs, mpijobs, xgboostjobs, paddlejobs, jaxjobs, mxjobs", kubeflow(), "spec.*ReplicaSpecs.*.template.", ""},
	{"batch.paddlepaddle.org", "paddlejobs", "['ps', 'worker', 'heter'].map(n, O.?spec[n].template.orValue(dyn({})))", "spec.ps/worker/heter.template.", ""},
	{"sparkoperator.k8s.io", "sparkapplications", spark("O.?spec"), "spec.driver/executor.", ""},
	{"sparkoperator.k8s.io", "scheduledsparkapplications", spark("O.?spec.template"), "spec.template.driver/executor.", ""},
	{"ray.io", "rayclusters", ray("O.?spec"), "spec." + rayAt, ""},
	{"ray.io", "rayjobs", ray("O.?spec.rayClusterSpec") + " + [O.?spec.submitterPodTemplate.orValue(dyn({}))]", "spec.submitterPodTemplate/rayClusterSpec." + rayAt, ""},
	{"ray.io", "rayservices", ray("O.?spec.rayClusterConfig"), "spec.rayClusterConfig." + rayAt, ""},
	{"argoproj.io", "rollouts", "", "", ""},
	{"argoproj.io", "workflows, workflowtemplates, clusterworkflowtemplates", argo("O.?spec"), "spec." + argoAt, ""},
	{"argoproj.io", "cronworkflows", argo("O.?spec.workflowSpec"), "spec.workflowSpec." + argoAt, "[dyn({'metadata': dyn(O.?spec.workflowMetadata.orValue(dyn({})))})]"},
	{"apps.kruise.io", "clonesets, statefulsets, daemonsets", "", "", ""},
	{"kubevirt.io", "virtualmachines, virtualmachineinstancereplicasets", "", "", ""},
	{"grove.io", "podcliquesets", grove, "spec.template.cliques[].", ""},
}

// groups are the kinds that have no pod template, but can have keys of dialects.
var groups = []family{
	{Group: "scheduling.volcano.sh", Resources: "podgroups"}, {Group: "scheduling.x-k8s.io", Resources: "podgroups"}, {Group: "scheduling.sigs.k8s.io", Resources: "podgroups"},
}

// kubeflow joins the replica specs of the training operator's kinds. Each kind has its own field.
func kubeflow() string {
	var all []string
	for _, field := range []string{"pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs", "paddleReplicaSpecs", "jaxReplicaSpecs", "mxReplicaSpecs"} {
		all = append(all, "O.?spec."+field+".orValue(dyn({})).map(r, O.spec."+field+"[r].?template.orValue(dyn({})))")
	}
	return strings.Join(all, " + ")
}

// patched returns the runtimes in the patches of a TrainJob. CEL cannot join the lists in a list,
// so only the first patches are checked.
func patched() (runtimes []string) {
	for i := range 4 {
		runtimes = append(runtimes, fmt.Sprintf("O.?spec.runtimePatches[?%d].trainingRuntimeSpec", i))
	}
	return runtimes
}

// trainJob joins the changes that a TrainJob makes in the templates of its runtime.
func trainJob() string {
	all := "O.?spec.podTemplateOverrides.orValue(dyn([]))"
	for _, of := range patched() {
		all += " + " + of + ".template.spec" + replicated
	}
	return all
}

// runtime joins the templates of the JobSet and of the Jobs in a runtime of Kubeflow's Trainer.
func runtime(of string) string {
	return "[" + of + ".template.orValue(dyn({}))] + " + of + ".template.spec" + ofJobs
}

// patches joins the metadata that a TrainJob has for its JobSet and Jobs: fields of its spec in
// Trainer 2.0, and patches of the runtime.
func patches() string {
	all := "[dyn({'metadata': dyn(O.?spec.orValue(dyn({})))})]"
	for _, of := range patched() {
		all += " + " + runtime(of)
	}
	return all
}

// spark joins the driver and the executor of an application. Both have annotations and labels, and
// may have a template.
func spark(of string) string {
	const metadata = "{'metadata': {'annotations': dyn(OF[n].annotations.orValue(dyn({}))), 'labels': dyn(OF[n].labels.orValue(dyn({})))}}"
	return "['driver', 'executor'].map(n, dyn(" + strings.ReplaceAll(metadata, "OF", of) + ")) + ['driver', 'executor'].map(n, " + of + "[n].template.orValue(dyn({})))"
}

func ray(cluster string) string {
	return "[" + cluster + ".headGroupSpec.template.orValue(dyn({}))] + " + cluster + ".workerGroupSpecs.orValue(dyn([])).map(g, g.?template.orValue(dyn({})))"
}

// argo joins the pods of a workflow. Their metadata and schedulerName are separate fields.
func argo(of string) string {
	const pod = "dyn({'metadata': dyn(METADATA.orValue(dyn({}))), 'spec': dyn({'schedulerName': dyn(SCHEDULER.orValue(''))})})"
	whole := strings.NewReplacer("METADATA", of+".podMetadata", "SCHEDULER", of+".schedulerName").Replace(pod)
	each := strings.NewReplacer("METADATA", "t.?metadata", "SCHEDULER", "t.?schedulerName.or("+of+".schedulerName)").Replace(pod)
	return "[" + whole + "] + " + of + ".templates.orValue(dyn([])).map(t, " + each + ")"
}

// is returns a CEL expression that is true for a request about these kinds.
func (f *family) is() string {
	return "request.resource.group == '" + f.Group + "' && request.resource.resource in ['" + strings.ReplaceAll(f.Resources, ", ", "', '") + "']"
}

// podsOf returns a CEL expression for the list of pods, or of pod templates, in the object of the
// variable.
func podsOf(variable string) string {
	out := "request.resource.resource == 'pods' ? [variables." + variable + "]\n"
	for i := range families {
		if f := &families[i]; f.Templates != "" {
			out += "      : " + f.is() + " ? " + strings.ReplaceAll(f.Templates, "O.", "variables."+variable+".") + "\n"
		}
	}
	return out + "      : request.resource.resource == 'podgroups' ? []\n      : [variables." + variable + ".?spec.template.orValue(dyn({}))]"
}

// outerOf returns a CEL expression for a list with the object, and with the objects in the variable
// whose metadata does not reach pods.
func outerOf(object, variable string) string {
	out := "request.resource.resource == 'pods' ? [] : [dyn(" + object + ")] + (request.resource.resource == 'cronjobs' ? [variables." + variable + "]\n"
	for i := range families {
		if f := &families[i]; f.Outer != "" {
			out += "      : " + f.is() + " ? " + strings.ReplaceAll(f.Outer, "O.", "variables."+variable+".") + "\n"
		}
	}
	return out + "      : [])"
}

// at returns a CEL expression for the path of the pod template.
func at() string {
	out := "(request.resource.resource == 'cronjobs' ? 'spec.jobTemplate.' : '') + (request.resource.resource == 'pods' ? ''\n"
	for i := range families {
		if f := &families[i]; f.At != "" {
			out += "      : " + f.is() + " ? '" + f.At + "'\n"
		}
	}
	return out + "      : 'spec.template.')"
}

// common returns the variables with the pods of a request.
func common() string {
	return `  - name: object # with the pod templates in its spec: of a CronJob its jobTemplate
    expression: "request.resource.resource == 'cronjobs' ? dyn(object).spec.jobTemplate : dyn(object)"
  - name: before # the old object, or {} if the object is new
    expression: "oldObject == null ? dyn({}) : request.resource.resource == 'cronjobs' ? dyn(oldObject).spec.jobTemplate : dyn(oldObject)"
  - name: pods # the pod, or the pod templates
    expression: >-
      ` + podsOf("object") + `
  - name: podsBefore
    expression: >-
      ` + podsOf("before") + "\n"
}

// others returns the variables with the dialects' own schedulers. The policy ignores the pods of
// these schedulers.
func others() string {
	var schedulers []string
	for _, d := range wire.Dialects() {
		schedulers = append(schedulers, d.Scheduler)
	}
	return `  - name: schedulers # schedulerNames; of Volcano's Jobs the name in the Job's spec
    expression: >-
      (request.resource.group in ['batch.volcano.sh', 'flow.volcano.sh'] ? [variables.object] : variables.pods)
      .map(p, string(p.?spec.schedulerName.orValue(''))).filter(n, n != '')
  - name: others # the first schedulerName, if it is a dialect's scheduler and not Berth
    expression: "variables.schedulers.filter(n, n == variables.schedulers[0] && n in ` + list(schedulers) + ` && !(n in []))"
`
}
