package scheduler

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-base/metrics"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// The states of a node for pods that could be pinned.
const (
	nodeTrusted    = "trusted"    // its report is reliable, and its agent renews its heartbeat
	nodeSilent     = "silent"     // its agent has sent no heartbeat or report for too long
	nodeUntrusted  = "untrusted"  // its report is not reliable
	nodeUnreported = "unreported" // there is no report
)

var (
	inFlightDesc     = metrics.NewDesc("berth_scheduler_in_flight_pods", "Pods that have a node but are not in its report yet, by stage: reserved, posted (the Binding is written or being written, and the order of such Bindings is known) or afloat (bound or perhaps bound, and the order is not known).", []string{"stage"}, nil, metrics.ALPHA, "")
	endingDesc       = metrics.NewDesc("berth_scheduler_ending_pods", "Pods that are ending and may still hold the resources that their node's report lists.", nil, nil, metrics.ALPHA, "")
	waitingDesc      = metrics.NewDesc("berth_scheduler_waiting_pods", "Pods of this scheduler's profiles without a node, by kind: gated (they have a scheduling gate), gang (members of gangs) or single.", []string{"kind"}, nil, metrics.ALPHA, "")
	longestWaitDesc  = metrics.NewDesc("berth_scheduler_longest_wait_seconds", "Seconds since the creation of the pod that has waited longest for a node, by kind: gang or single. Pods with a scheduling gate do not count. 0 if none waits.", []string{"kind"}, nil, metrics.ALPHA, "")
	leadsDesc        = metrics.NewDesc("berth_scheduler_leads", "1 if this replica takes pods from the scheduling queue, 0 if it stands by.", nil, nil, metrics.ALPHA, "")
	nodesDesc        = metrics.NewDesc("berth_scheduler_nodes", "Nodes by the state of their report: trusted, silent (no recent heartbeat), untrusted (the report is not Ready or was refused) or unreported (there is none).", []string{"state"}, nil, metrics.ALPHA, "")
	floodedDesc      = metrics.NewDesc("berth_scheduler_flooded_nodes", "Trusted nodes that accept no pod that could be pinned until their next report, because too much is uncertain, by reason: ManyEvents, ManyOrders, ManyStates, Unpredictable, Inherited or Resized (docs/metrics.md).", []string{"reason"}, nil, metrics.ALPHA, "")
	silenceDesc      = metrics.NewDesc("berth_scheduler_longest_silence_seconds", "Longest time in seconds since an agent's last heartbeat or report, over all nodes with a report.", nil, nil, metrics.ALPHA, "")
	gangsDesc        = metrics.NewDesc("berth_scheduler_gangs", "Gangs of this scheduler's pods by state: forming, wrong, waiting, planned, partial, whole, reduced or completed.", []string{"state"}, nil, metrics.ALPHA, "")
	reservationsDesc = metrics.NewDesc("berth_scheduler_reservations", "Koordinator's Reservations for this scheduler, by the phase of their status.", []string{"phase"}, nil, metrics.ALPHA, "")
	placesDesc       = metrics.NewDesc("berth_scheduler_held_places", "Reservations that hold resources on a node, by the authority of the node: berth or kubelet. Reservations whose owners use all of these resources count, too.", []string{"authority"}, nil, metrics.ALPHA, "")
	heldCPUsDesc     = metrics.NewDesc("berth_scheduler_held_cpus", "CPUs that Reservations hold and no owner uses, by the authority of their node.", []string{"authority"}, nil, metrics.ALPHA, "")
	heldMemoryDesc   = metrics.NewDesc("berth_scheduler_held_memory_bytes", "Memory that Reservations hold and no owner uses, by the authority of their node.", []string{"authority"}, nil, metrics.ALPHA, "")
	heldDevicesDesc  = metrics.NewDesc("berth_scheduler_held_devices", "Devices that Reservations hold and no owner uses, by the authority of their node and by resource.", []string{"authority", "resource"}, nil, metrics.ALPHA, "")
)

// nodeGauges is the collector of the gauges of this process's scheduler.
var nodeGauges gauges

// gauges computes its values at each scrape from the core that was created last.
type gauges struct {
	metrics.BaseStableCollector
	core atomic.Pointer[core]
}

var _ metrics.StableCollector = (*gauges)(nil)

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(out chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{inFlightDesc, endingDesc, waitingDesc, longestWaitDesc, leadsDesc, nodesDesc, floodedDesc, silenceDesc, gangsDesc, reservationsDesc, placesDesc, heldCPUsDesc, heldMemoryDesc, heldDevicesDesc} {
		out <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(out chan<- metrics.Metric) {
	of := g.core.Load()
	if of == nil {
		return
	}
	gauge := func(d *metrics.Desc, v float64, labels ...string) {
		out <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, v, labels...)
	}
	c := of.count()
	gauge(inFlightDesc, float64(c.pods.Reserved), "reserved")
	gauge(inFlightDesc, float64(c.pods.Posted), "posted")
	gauge(inFlightDesc, float64(c.pods.Afloat), "afloat")
	gauge(endingDesc, float64(c.pods.Ending))
	of.waitGauges(gauge)
	for _, state := range []string{nodeTrusted, nodeSilent, nodeUntrusted, nodeUnreported} {
		gauge(nodesDesc, float64(c.nodes[state]), state)
	}
	for w := range ledger.Waits {
		if w.Flood() {
			gauge(floodedDesc, float64(c.flooded[w]), w.String())
		}
	}
	gauge(silenceDesc, c.silence.Seconds())
	groups := of.gangs.Count()
	for _, state := range gangs.Stages {
		gauge(gangsDesc, float64(groups[state]), string(state))
	}
	census := of.reservations.Count()
	heldGauges(&census, gauge)
}

// The kinds of waiting pods.
const (
	waitsGated  = "gated"
	waitsInGang = "gang"
	waitsAlone  = "single"
)

// waitGauges reports whether this replica leads, how many pods wait for a node, and the longest
// wait, as the watch shows the pods. A standby replica also reports these values.
func (c *core) waitGauges(gauge func(d *metrics.Desc, v float64, labels ...string)) {
	leads := 0.0
	if c.lead.Leads() {
		leads = 1
	}
	gauge(leadsDesc, leads)
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return // a lister reads memory and does not fail
	}
	count, longest := c.waiting(pods)
	for _, kind := range []string{waitsGated, waitsInGang, waitsAlone} {
		gauge(waitingDesc, float64(count[kind]), kind)
		if kind != waitsGated {
			gauge(longestWaitDesc, longest[kind].Seconds(), kind)
		}
	}
}

// waiting counts, by kind, the pods that name a profile of this scheduler and have no node. It also
// returns the longest wait of each kind.
func (c *core) waiting(pods []*corev1.Pod) (count map[string]int, longest map[string]time.Duration) {
	count, longest = map[string]int{}, map[string]time.Duration{}
	now := c.clock.Now()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || wire.Ended(pod) || !c.profiles.ours(pod.Spec.SchedulerName) {
			continue
		}
		kind := waitsAlone
		switch {
		case len(pod.Spec.SchedulingGates) > 0:
			kind = waitsGated
		case wire.InGang(pod):
			kind = waitsInGang
		}
		count[kind]++
		longest[kind] = max(longest[kind], now.Sub(pod.CreationTimestamp.Time))
	}
	return count, longest
}

// heldGauges reports the number of Reservations by phase, and the resources that they hold. Except
// for the devices, every series exists from the start, so that an alert notices its first increase.
func heldGauges(census *reservation.Census, gauge func(d *metrics.Desc, v float64, labels ...string)) {
	for _, phase := range reservation.Phases {
		gauge(reservationsDesc, float64(census.Phases[phase]), string(phase))
	}
	for authority, label := range []v1alpha1.Authority{placement.AuthorityKubelet: v1alpha1.AuthorityKubelet, placement.AuthorityBerth: v1alpha1.AuthorityBerth} {
		held, label := census.Held[placement.Authority(authority)], string(label)
		gauge(placesDesc, float64(held.Places), label)
		gauge(heldCPUsDesc, float64(held.MilliCPU)/1000, label)
		gauge(heldMemoryDesc, float64(held.Bytes), label)
		for resource, count := range held.Devices {
			gauge(heldDevicesDesc, float64(count), label, string(resource))
		}
	}
}

type counts struct {
	pods    ledger.Census
	nodes   map[string]int
	flooded map[ledger.Wait]int
	silence time.Duration
}

func (c *core) count() counts {
	out := counts{nodes: map[string]int{}, flooded: map[ledger.Wait]int{}}
	for n := range c.table.All {
		census := n.Account().View().Census()
		out.pods.Reserved += census.Reserved
		out.pods.Posted += census.Posted
		out.pods.Afloat += census.Afloat
		out.pods.Ending += census.Ending
		state := stateOf(c.table.Unusable(n))
		out.nodes[state]++
		if state == nodeTrusted {
			out.flooded[n.Account().View().Flooded()]++
		}
		if state != nodeUnreported {
			out.silence = max(out.silence, c.table.Silence(n))
		}
	}
	return out
}

func stateOf(why *nodestate.Unusable) string {
	switch {
	case why == nil:
		return nodeTrusted
	case why.Reason == nodestate.Silent:
		return nodeSilent
	case why.Reason == nodestate.NoReport:
		return nodeUnreported
	default:
		return nodeUntrusted
	}
}
