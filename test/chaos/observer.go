package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
)

// watched is the record of a pod.
type watched struct {
	pod     *corev1.Pod
	ran     bool // it ran, and its placement was judged
	refused bool
	gone    bool
	foreign bool
	// bound and ended are the times at which the pod was first seen with a node, and first seen as
	// ended or gone.
	bound, ended time.Time
	// excuse is the reason why its promise may be broken; "" for none.
	excuse string
}

// see records the pod's state in the API.
func (w *watched) see(pod *corev1.Pod, gone bool, now time.Time) {
	w.pod, w.gone = pod, gone
	if w.bound.IsZero() && pod.Spec.NodeName != "" {
		w.bound = now
	}
	if over := gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded; over && w.ended.IsZero() {
		w.ended = now
	}
}

// holding is the set of resources that one pod has in the checkpoints of its node.
type holding struct {
	node  string
	first time.Time
	last  time.Time
	// left is the time since which the checkpoints have had no CPUs of the pod. It is zero if they
	// have some, or never had any.
	left  time.Time
	alloc placement.PodAllocation
}

// observer watches pods, reports and checkpoints and records broken promises.
type observer struct {
	cluster *cluster
	book    *book

	mu       sync.Mutex
	pods     map[types.UID]*watched
	holdings map[string]*holding  // by pod UID; kept when the pod has left
	pinned   map[string][]string  // by node: the UIDs of pods that had CPUs at the last reading of the checkpoints
	whole    map[string]bool      // gangs that were complete once
	returned map[string]time.Time // by node: when a pod was last admitted again (see forgotten)
	reports  map[string]*v1alpha1.NodeTopology
	listed   map[string]int64 // by pod UID: the first report that has it
	shown    map[string]int64 // by pod UID: the first report that shows its resources
	tally    tally
	leader   string // the scheduler that was last seen to lead
	// decided are the decisions of all Bindings, for nodes that obey.
	decided obeyed.Decisions
	// store has the pods of the watch. It is never older than the events of podTold.
	store corelisters.PodLister
}

// tally counts.
type tally struct {
	pods, foreign, ran             int
	placed                         placements
	refused                        refusals
	outcomes                       map[string]int // broken promises that the scheduler logged, by outcome
	reports, notReady, checkpoints int
	looks                          int // readings of cgroups of nodes where Berth decides
	torn, readmitted               int // repaired kubelets, pods that a kubelet had forgotten
	leaders                        int
	gangs                          int // complete gangs
	attempts, accepted             int // the tenant's requests
	mistakes                       int // excused mistakes of shadow mode
}

// placements counts pods that ran, by the outcomes of their placements.
type placements struct {
	// exact counts placements that were kept exactly. exactDisturbed counts the ones during a
	// fault.
	exact, exactDisturbed int
	// These exact placements differ from the kubelet's assignment, with an excuse.
	differedDisturbed, differedContended, differedVanished int
	// verdict counts promises of only admission. obeyed counts decisions by Berth. unseen counts
	// placements that could not be compared with the kubelet's.
	verdict, obeyed, unseen int
}

// refusals counts pods that a kubelet refused, by excuse.
type refusals struct{ foreign, again, unplugged, unswept, returned, contended int }

func newObserver(c *cluster, b *book) *observer {
	return &observer{
		cluster: c, book: b, pods: map[types.UID]*watched{}, reports: map[string]*v1alpha1.NodeTopology{}, listed: map[string]int64{}, shown: map[string]int64{},
		holdings: map[string]*holding{}, pinned: map[string][]string{}, returned: map[string]time.Time{}, whole: map[string]bool{},
		tally: tally{outcomes: map[string]int{}}, decided: obeyed.Decisions{},
	}
}

// checkpointPoll is the interval of reading checkpoints. It is shorter than the life of a pod.
const checkpointPoll = 50 * time.Millisecond

// evidence returns the objects to print with a violation that concerns the pod. The caller holds
// mu.
func (o *observer) evidence(w *watched) []any {
	out := []any{w.pod}
	if nt := o.reports[w.pod.Spec.NodeName]; nt != nil {
		out = append(out, nt)
	}
	type neighbour struct {
		Name, UID, Phase, Placement string
		Created                     metav1.Time
		Deleted                     *metav1.Time
		Gone                        bool
		Held                        string
	}
	var all []neighbour
	for uid, other := range o.pods {
		if other.pod.Spec.NodeName != w.pod.Spec.NodeName || time.Since(other.pod.CreationTimestamp.Time) > time.Minute {
			continue
		}
		n := neighbour{Name: other.pod.Name, UID: string(uid), Phase: string(other.pod.Status.Phase), Placement: other.pod.Annotations[wire.PlacementAnnotation],
			Created: other.pod.CreationTimestamp, Deleted: other.pod.DeletionTimestamp, Gone: other.gone}
		if h := o.holdings[string(uid)]; h != nil {
			n.Held = fmt.Sprintf("%s %+v", h.first.UTC().Format(clockFormat), h.alloc.Containers)
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b neighbour) int { return strings.Compare(a.Name, b.Name) })
	return append(out, all)
}
