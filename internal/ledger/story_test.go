package ledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/golden"
)

// TestStories plays testdata/*.txt: events on a node, and the ledger's answers. testdata/README.md
// explains the commands.
func TestStories(t *testing.T) {
	golden.Stories(t, func(t *testing.T) golden.Stage {
		return &story{t: t, pods: map[string]*placement.Request{}, created: map[string]int64{}, sent: map[int64]*Promise{}}
	})
}

// story is the real state of a node, and the ledger's account of it.
type story struct {
	t *testing.T
	k *kubelet
	n *Node
	// pods has the requests by UID, created the seconds of their creation, and sent the promises of
	// Bindings by turn.
	pods    map[string]*placement.Request
	created map[string]int64
	sent    map[int64]*Promise
	told    string // the results of the commands since the last dashes
}

// Do carries out one command and checks the node.
func (s *story) Do(word string, words []string) error {
	do := s.commands()[word]
	if do == nil {
		return errors.New("no such command")
	}
	s.told += do(s.parse(words)) + "\n"
	check(s.t, s.n)
	return nil
}

// Tell returns the results of the commands.
func (s *story) Tell() string {
	told := s.told
	s.told = ""
	return told
}

// args are the words of a command: the name of its object, and the data about it.
type args struct {
	name    string
	said    map[string]string
	request *placement.Request
}

func (a *args) number(key string) int64 {
	n, _ := strconv.ParseInt(a.said[key], 10, 64)
	return n
}

func (a *args) is(word string) bool { _, ok := a.said[word]; return ok }

// parse reads words. Data about a pod's request applies from then on.
func (s *story) parse(words []string) *args {
	a := &args{said: map[string]string{}}
	for i, word := range words {
		if key, value, ok := strings.Cut(word, "="); ok || i > 0 {
			a.said[key] = value
			continue
		}
		a.name = word
	}
	if a.is("cpu") {
		s.pods[a.name], s.created[a.name] = cpus(a.name, a.number("cpu")), a.number("created")
	}
	a.request = s.pods[a.name]
	return a
}

func (s *story) candidate(a *args) *Candidate {
	return &Candidate{Request: a.request, Created: s.created[a.name], Mortal: a.is("mortal")}
}

func (s *story) commands() map[string]func(*args) string {
	return map[string]func(*args) string{
		"node": s.node, "state": s.state, "report": s.report, "withdraw": s.withdraw,
		"reserve": s.reserve, "post": s.post, "reconsider": s.reconsider, "ask": s.ask,
		"see": s.see, "gone": s.gone, "heartbeat": s.heartbeat,
		"kubelet-admits": s.kubeletAdmits, "kubelet-ends": s.kubeletEnds,
		"forget": func(a *args) string { s.n.Forget(a.name); return a.name + ": forgotten" },
		"elsewhere": func(a *args) string {
			s.n.See(Sighting{UID: a.name, Phase: Elsewhere})
			return a.name + ": on another node"
		},
		"doubt": func(a *args) string {
			s.n.Doubt(a.name, time.Unix(a.number("until"), 0))
			return a.name + ": nobody knows"
		},
	}
}

func (s *story) node(a *args) string {
	machine := "package:" + a.said["sockets"] + " numa:1 core:" + a.said["cores"] + " pu:1"
	cfg := pinning
	cfg.TopologyManagerPolicy = a.said["policy"]
	s.k, s.n = newKubelet(s.t, model(s.t, machine, cfg)), new(Ledger).Open(nil)
	return s.report(a)
}

func (s *story) reserve(a *args) string {
	var d placement.Decision
	return a.name + ": " + told(s.n.Reserve(s.candidate(a), &d), &d)
}

func (s *story) post(a *args) string {
	var d placement.Decision
	p, err := s.n.Post(a.name, &d)
	if err != nil {
		return err.Error()
	}
	text := a.name + ": " + told(p.Answer, &d)
	if p.Turn > 0 {
		s.sent[p.Turn] = &Promise{Decision: d.Clone(), Exact: p.Answer.Exact}
		text += fmt.Sprintf("; turn %d", p.Turn)
	}
	return text
}

func (s *story) reconsider(a *args) string { return a.name + ": " + told(s.n.Reconsider(a.name), nil) }

func (s *story) ask(a *args) string {
	var trial Trial
	if away := a.said["without"]; away != "" {
		trial.Without = strings.Split(away, ",")
	}
	if first := a.said["after"]; first != "" {
		trial.With = append(trial.With, s.pods[first])
	}
	return a.name + ": " + told(s.n.View().Ask(Question{Candidate: s.candidate(a), Trial: &trial}), nil)
}

func (s *story) see(a *args) string {
	changed, outcome := s.n.See(Sighting{
		UID: a.name, Request: a.request, Created: s.created[a.name], Turn: a.number("turn"), Promise: s.sent[a.number("turn")],
		Phase: endingIf(a.is("ending")), Mortal: a.is("mortal"), Inherited: a.is("inherited"),
	})
	text := a.name + ": nothing new"
	if changed {
		text = a.name + ": seen"
	}
	if outcome != nil {
		text += "; " + toldOutcome(outcome)
	}
	return text
}

func (s *story) gone(a *args) string {
	s.n.Gone(a.name, time.Unix(a.number("at"), 0))
	return a.name + ": gone from the API"
}

func (s *story) heartbeat(a *args) string {
	if s.n.ForgetGone(time.Unix(a.number("at"), 0), 5*time.Second) {
		return "the agent lives: pods that never came are forgotten"
	}
	return "the agent lives"
}

func (s *story) kubeletAdmits(a *args) string {
	if v := s.k.admit(a.request); !v.OK() {
		return "the kubelet refuses " + a.name + ": " + v.Reason.String()
	}
	d := s.k.found[a.name]
	return "the kubelet gives " + a.name + " " + cpusOf(&d)
}

func (s *story) kubeletEnds(a *args) string {
	s.k.End(a.name)
	s.k.ReleaseEnded()
	return "the kubelet releases " + a.name
}

func (s *story) report(*args) string {
	outcomes := s.n.Accept(s.k.report())
	text := fmt.Sprintf("report %d", s.k.seq)
	for i := range outcomes {
		text += "; " + toldOutcome(&outcomes[i])
	}
	return text
}

func (s *story) withdraw(*args) string {
	s.n.Withdraw()
	return "no report to rely on"
}

func (s *story) state(*args) string {
	c := s.n.View().Census()
	text := fmt.Sprintf("%d reserved, %d posted, %d afloat, %d ending", c.Reserved, c.Posted, c.Afloat, c.Ending)
	if why := s.n.View().Flooded(); why != WaitsForNothing {
		return text + "; flooded: " + why.Text()
	}
	if states := len(s.n.outlook.afterReserved().all); states > 1 {
		return text + fmt.Sprintf("; one of %d states", states)
	}
	return text
}

// told describes an answer, and the resources of an admitted pod.
func told(a Answer, d *placement.Decision) string {
	switch {
	case a.Outcome == Waiting:
		return "waits: " + a.Wait.String()
	case a.Outcome == Refused:
		return "refused: " + a.Verdict.Reason.String()
	case !a.OK():
		return a.Outcome.String()
	}
	text := "admitted"
	if d != nil {
		text += ", " + cpusOf(d)
	}
	if a.Exact {
		return text + " for certain"
	}
	return text
}

func cpusOf(d *placement.Decision) string {
	set := d.Containers[0].CPUs
	if set.IsEmpty() {
		return "shared CPUs"
	}
	return "CPUs " + set.String()
}

func toldOutcome(o *PromiseOutcome) string {
	text := o.UID + " "
	switch {
	case o.Refused:
		text += "was refused"
	case o.Kept:
		text += "got what it was promised"
	case o.Exact:
		text += "got other CPUs than promised"
	default:
		text += "got CPUs that were not promised"
	}
	if o.Contended {
		text += ", contended"
	}
	return text
}
