package query

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// HeldBack is a reason why a pending pod gets no node. The nodes' answers do not cover this reason.
type HeldBack struct {
	// By is the cause: SchedulingGates, or a plugin of the pod's scheduler.
	By string `json:"by"`
	// Message describes what is missing, and Advice what a user can do.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
}

// Causes that hold a pod back: mostly names of kube-scheduler's plugins.
const (
	bySchedulingGates = "SchedulingGates"
	bySpread          = "PodTopologySpread"
	byAffinity        = "InterPodAffinity"
	byVolumes         = "VolumeBinding"
	byClaims          = "DynamicResources"
	byAnother         = "another plugin"
)

// refusal is a refusal by a plugin other than Berth. It is recognised by the field `text`, a part
// of the plugin's message.
type refusal struct{ text, by, advice string }

// refusals are parts of the reasons of kube-scheduler's plugins: the ErrReason constants and other
// error texts under pkg/scheduler/framework/plugins.
var refusals = []refusal{
	{"pod topology spread constraints (missing required label)", bySpread, "give nodes the label of the pod's topologySpreadConstraints, or change its topologyKey"},
	{"pod topology spread constraints", bySpread, "wait until pods in the full domains end, or allow an uneven spread: raise maxSkew, or set whenUnsatisfiable: ScheduleAnyway"},
	{"anti-affinity rules", byAffinity, "wait until the pods that exclude it end, or change its podAntiAffinity or theirs"},
	{"pod affinity rules", byAffinity, "check that pods that match its podAffinity run, or change the podAffinity"},
	{"unbound immediate PersistentVolumeClaims", byVolumes, claimAdvice},
	{"persistentvolumeclaim", byVolumes, claimAdvice},
	{"PersistentVolume", byVolumes, claimAdvice},
	{"persistent volumes to bind", byVolumes, "offer a volume that the claim's nodes can use: kubectl describe pvc"},
	{"volume node affinity", byVolumes, "its volume is tied to other nodes: make room on those, or use another volume"},
	{"free storage", byVolumes, "make room in the storage, or ask for a smaller volume"},
	{"volume zone", "VolumeZone", "its volume is in another zone: make room on the nodes there, or use another volume"},
	{"max volume count", "NodeVolumeLimits", "wait until pods with volumes end, or add nodes"},
	{"ReadWriteOncePod", "VolumeRestrictions", "the claim's access mode allows only one pod at a time: wait until the pod that uses it ends"},
	{"conflicting volume", "VolumeRestrictions", "wait until the pod that uses the volume ends"},
	{"resourceclaim", byClaims, "look at the claim: kubectl describe resourceclaim"},
	{"allocate all claims", byClaims, "wait until devices are free, or change the claim's selectors: kubectl describe resourceclaim"},
}

const claimAdvice = "bind the claim: kubectl describe pvc shows if it waits for a StorageClass, a provisioner, or a PersistentVolume"

// askedHere has parts of messages of kube-scheduler and Berth. Reasons with such a part are
// ignored, because the nodes' answers already cover them.
var askedHere = []string{"Insufficient ", "Too many pods", "taint", "unschedulable", "node affinity/selector", "free ports", "requested node name",
	"kubelet", "Berth", "berth", "report", "certain", "Reservation", "gang", "No preemption", "preempt", "node(s) whose", "filtered out"}

// reasonCount matches the number of nodes with which each reason of kube-scheduler's FitError
// begins.
var reasonCount = regexp.MustCompile(`(?:^|[,:] )(\d+) `)

// reasonsOf returns the reasons in a scheduler's message, without the numbers of nodes.
func reasonsOf(message string) (out []string) {
	message = survey.WithoutPreemption(message)
	if head, rest, ok := strings.Cut(message, "nodes are available: "); ok && !strings.Contains(head, ";") {
		message = rest
	}
	at := reasonCount.FindAllStringIndex(message, -1)
	if len(at) == 0 || at[0][0] != 0 {
		return []string{message}
	}
	for i, from := range at {
		to := len(message)
		if i+1 < len(at) {
			to = at[i+1][0]
		}
		out = append(out, strings.TrimSuffix(message[from[1]:to], "."))
	}
	return out
}

// kueueGates is the beginning of the names of Kueue's scheduling gates. Kueue deletes a pod if
// someone else removes its gate before the pod is admitted.
const kueueGates = "kueue.x-k8s.io/"

// heldBack returns the reason why a pending pod gets no node, or nil. It uses the pod's spec, the
// nodes' labels and the scheduler's message. `admits` means that some node would admit the pod. If
// no node would admit the pod, heldBack ignores the message, which may be older than the nodes'
// answers.
func heldBack(s *survey.Survey, pod *corev1.Pod, admits bool) *HeldBack {
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 {
		names := make([]string, len(gates))
		for i := range gates {
			names[i] = gates[i].Name
		}
		advice := "look at the controller that sets and removes the gate; or remove spec.schedulingGates yourself (kubectl edit pod " + pod.Name + ")"
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, kueueGates) }) {
			advice = "Kueue removes its gate when it admits the pod: kubectl describe workloads.kueue.x-k8s.io -n " + pod.Namespace
		}
		return &HeldBack{bySchedulingGates, "no scheduler looks at the pod before its scheduling gates are removed: " + strings.Join(names, ", "), advice}
	}
	if key := unknownTopology(s, pod); key != "" {
		return &HeldBack{bySpread, "no node has the label " + key + " of its topologySpreadConstraints",
			"give nodes the label (kubectl label node NODE " + key + "=VALUE), or change the constraint's topologyKey"}
	}
	if !admits {
		return nil
	}
	return heldByMessage(wire.Unscheduled(pod).Message)
}

// heldByMessage returns the first reason in a scheduler's message that the nodes' answers do not
// cover, or nil.
func heldByMessage(message string) *HeldBack {
	if message == "" {
		return nil
	}
	var other string
	for _, reason := range reasonsOf(message) {
		if at := slices.IndexFunc(refusals, func(r refusal) bool { return strings.Contains(reason, r.text) }); at >= 0 {
			r := &refusals[at]
			return &HeldBack{r.by, strings.TrimPrefix(reason, "node(s) "), r.advice}
		}
		if !slices.ContainsFunc(askedHere, func(text string) bool { return strings.Contains(reason, text) }) {
			other = cmp.Or(other, reason)
		}
	}
	if other == "" {
		return nil
	}
	return &HeldBack{byAnother, strings.TrimPrefix(other, "node(s) "), "Berth does not refuse the pod: look at the pod's events, and at the log of its scheduler"}
}

// unknownTopology returns the first topologyKey of a required spread constraint that no node has as
// a label. It returns "" if there is none, or if not all Nodes are known.
func unknownTopology(s *survey.Survey, pod *corev1.Pod) string {
	if !s.Facts.NodesKnown || s.Partial {
		return ""
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		known := false
		for _, n := range s.States {
			if n.Object != nil {
				if _, has := n.Object.Labels[c.TopologyKey]; has {
					known = true
					break
				}
			}
		}
		if !known {
			return c.TopologyKey
		}
	}
	return ""
}

type claimOf struct {
	name string
	// made is the name of the ephemeral volume for which kube-controller-manager creates the claim,
	// or "".
	made string
}

func claimsOf(pod *corev1.Pod) (out []claimOf) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, claimOf{name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			out = append(out, claimOf{pod.Name + "-" + v.Name, v.Name})
		}
	}
	return out
}

// selectedNode is the annotation by which a scheduler requests a volume from a provisioner
// (volume.AnnSelectedNode).
const selectedNode = "volume.kubernetes.io/selected-node"

// heldByClaims describes a PersistentVolumeClaim that holds the pod back because it is missing,
// unbound, lost or being deleted. It returns nil if there is none, or if PersistentVolumeClaims may
// not be read.
func heldByClaims(ctx context.Context, a *source.API, pod *corev1.Pod) *HeldBack {
	for _, c := range claimsOf(pod) {
		name := c.name
		claim, err := a.VolumeClaim(ctx, pod.Namespace, name)
		switch {
		case apierrors.IsNotFound(err) && c.made != "":
			return &HeldBack{byVolumes, "there is no PersistentVolumeClaim " + name + " yet; kube-controller-manager creates it for volume " + c.made,
				"look at the pod's events (kubectl describe pod " + pod.Name + "), and at the log of kube-controller-manager"}
		case apierrors.IsNotFound(err):
			return &HeldBack{byVolumes, "there is no PersistentVolumeClaim " + name, "create it, or correct the name in spec.volumes"}
		case err != nil:
			return nil
		case claim.Status.Phase == corev1.ClaimLost:
			return &HeldBack{byVolumes, "PersistentVolumeClaim " + name + " has lost its volume", "kubectl describe pvc " + name}
		case claim.DeletionTimestamp != nil:
			return &HeldBack{byVolumes, "PersistentVolumeClaim " + name + " is being deleted", "wait until it is gone and create it again: kubectl describe pvc " + name}
		case claim.Spec.VolumeName != "" || claim.Status.Phase == corev1.ClaimBound:
			continue
		}
		class := ""
		if claim.Spec.StorageClassName != nil {
			class = *claim.Spec.StorageClassName
		}
		if held := unbound(name, class, claim.Annotations[selectedNode], wire.Unscheduled(pod).Message); held != nil {
			return held
		}
	}
	return nil
}

// unbound explains why a claim without a volume delays a pod: a node has been chosen for it, the
// scheduler's message is about volumes, or the claim names no StorageClass. In other cases unbound
// returns nil, because the claim may wait for the pod (WaitForFirstConsumer).
func unbound(name, class, chosen, message string) *HeldBack {
	what := "PersistentVolumeClaim " + name + " is not bound"
	if class != "" {
		what += " (StorageClass " + class + ")"
	}
	switch held := heldByMessage(message); {
	case chosen != "":
		return &HeldBack{byVolumes, what + ": it waits for a volume on node " + chosen, "look at the provisioner of the StorageClass: kubectl describe pvc " + name}
	case held != nil && held.By == byVolumes:
		return &HeldBack{byVolumes, what + ": " + held.Message, "kubectl describe pvc " + name + " shows if it waits for a StorageClass, a provisioner, or a PersistentVolume"}
	case class == "":
		return &HeldBack{byVolumes, what + ", and names no StorageClass", "offer a PersistentVolume for it, or name a StorageClass: kubectl describe pvc " + name}
	}
	return nil
}

// holdBack fills in the reason why a pending pod gets no node, and adds this reason to the answers
// of nodes that admit the pod.
func (e *Explained) holdBack(ctx context.Context, c *survey.Cluster, s *survey.Survey, pod *corev1.Pod) {
	admits := !e.Decided || slices.ContainsFunc(e.Nodes, func(a Answer) bool { return a.Answer == Admits })
	e.HeldBack = heldBack(s, pod, admits)
	if a, err := c.API(); err == nil && (e.HeldBack == nil || e.HeldBack.By == byVolumes) && len(claimsOf(pod)) > 0 {
		e.HeldBack = cmp.Or(heldByClaims(ctx, a, pod), e.HeldBack)
	}
	if e.HeldBack == nil {
		return
	}
	for i := range e.Nodes {
		if a := &e.Nodes[i]; a.Answer == Admits {
			a.Message = fmt.Sprintf("%s, once %s no longer holds the pod back", a.Message, e.HeldBack.By)
		}
	}
	e.Groups = groupsOf(e.Nodes)
}
