package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/enforce"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// The runtime has the decision with which a pod was bound. A newer decision about a resized pod
// comes from the API server. The agent stores it in a file, so that it is not lost when the agent
// restarts: another pod may already have the CPUs that the resized pod gave up.

// maxDecisions is the maximum size of all decisions, in bytes.
const maxDecisions = 16 << 20

// decisionsFile is the file with these decisions.
var decisionsFile = stateFile{"decisions.json", 2 * maxDecisions}

// decisions stores the newest decisions about resized pods.
type decisions struct {
	// dir is the folder of the file. "" means that no decision can be stored, so none is accepted.
	dir string
	// complain is called with the reason if a decision is not accepted.
	complain func(error)

	mu sync.Mutex
	// byPod has the annotations with the decisions, by UID; nil before the file was read.
	byPod map[string]string
	size  int
	// take is called with every stored decision. It may be nil.
	take func(uid string, d enforce.Decided)
}

func newDecisions(o *Options) *decisions {
	var last string
	return &decisions{dir: o.StateDir, complain: func(err error) {
		if text := err.Error(); text != last { // the caller of complain holds the lock
			last = text
			o.Log.Warn("the decision for a resized pod cannot be carried out", "error", err)
		}
	}}
}

// decidedIn parses a decision about a resized pod. It returns an error for a decision from a
// Binding, and for a decision that another program carries out.
func decidedIn(uid, text string) (enforce.Decided, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), Annotations: map[string]string{wire.PlacementAnnotation: text}}}
	p, _, err := wire.ReadPlacement(pod)
	switch {
	case err != nil:
	case p.Generation < 2:
		err = fmt.Errorf("decision for pod %s: generation %d: want at least 2, a decision after a resize", uid, p.Generation)
	case p.Authority != placement.AuthorityBerth:
		err = fmt.Errorf("decision for pod %s: authority kubelet: want berth", uid)
	case p.Koordlet:
		err = fmt.Errorf("decision for pod %s: enforcer koordlet: want the agent", uid)
	}
	return enforce.Decided{Generation: p.Generation, Containers: p.Decision.Containers}, err
}

// see stores the decision about a pod, if it is newer than the stored one.
func (s *decisions) see(pod *corev1.Pod) {
	if wire.GenerationOf(pod) < 2 || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return
	}
	uid, text := string(pod.UID), pod.Annotations[wire.PlacementAnnotation]
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.load()
	if err != nil || s.byPod[uid] == text {
		s.complainOf(err)
		return
	}
	d, err := decidedIn(uid, text)
	if err == nil {
		err = s.keep(uid, text, d.Generation)
	}
	if s.complainOf(err); err == nil && s.take != nil {
		s.take(uid, d)
	}
}

func (s *decisions) complainOf(err error) {
	if err != nil {
		s.complain(err)
	}
}

var errOlder = errors.New("a decision of this or a later generation is already stored")

// keep writes a decision to the file before the decision is carried out.
func (s *decisions) keep(uid, text string, generation uint64) error {
	was, known := s.byPod[uid]
	if known {
		if old, err := decidedIn(uid, was); err == nil && old.Generation >= generation {
			return fmt.Errorf("decision of generation %d for pod %s: %w", generation, uid, errOlder)
		}
	}
	if size := s.size + len(text) - len(was); size > maxDecisions {
		return fmt.Errorf("decisions for resized pods: %d bytes including the decision for pod %s: want at most %d", size, uid, maxDecisions)
	}
	s.byPod[uid] = text
	if err := decisionsFile.write(s.dir, s.byPod); err != nil {
		if s.byPod[uid] = was; !known {
			delete(s.byPod, uid)
		}
		return err
	}
	s.size += len(text) - len(was)
	return nil
}

// load reads the file, unless it has already been read. It logs and ignores entries that are not
// decisions.
func (s *decisions) load() error {
	if s.dir == "" {
		return errors.New("--state-dir is empty: want a folder in which the agent stores the newest decisions about resized pods")
	}
	if s.byPod != nil {
		return nil
	}
	all := map[string]string{}
	name, text, err := decisionsFile.read(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.byPod = all
		return nil
	case err != nil:
		return err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w: want a file that the agent wrote", name, err)
	}
	s.byPod, s.size = all, 0
	for uid, text := range all {
		if _, err := decidedIn(uid, text); err != nil {
			delete(all, uid)
			s.complain(err)
			continue
		}
		s.size += len(text)
	}
	return nil
}

// follow calls take with the stored decisions, and later with each new decision.
func (s *decisions) follow(take func(uid string, d enforce.Decided)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take = take
	if s.dir == "" {
		return nil
	}
	if err := s.load(); err != nil {
		return err
	}
	for uid, text := range s.byPod {
		if d, err := decidedIn(uid, text); err == nil {
			take(uid, d)
		}
	}
	return nil
}

// unfollow ends the calls of the function that was passed to follow.
func (s *decisions) unfollow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take = nil
}

// prune forgets the decisions about pods that are neither in the API nor on the node.
func (s *decisions) prune(has func(uid string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := false
	for uid, text := range s.byPod {
		if !has(uid) {
			dropped, s.size = true, s.size-len(text)
			delete(s.byPod, uid)
		}
	}
	if dropped {
		s.complainOf(decisionsFile.write(s.dir, s.byPod))
	}
}

// readMoving passes to the plugin what the cgroups of moving and resized containers show, and
// returns the state of the plugin.
func (e *enforcer) readMoving(plugin *enforce.Plugin) enforce.Sight {
	s, cgroups, read := plugin.Sight(), os.DirFS(e.opts.Enforce.Cgroups), false
	for i := range s.Containers {
		c := &s.Containers[i]
		if !c.Refits || !c.Running || !c.Settled {
			continue
		}
		dir, err := enforce.CgroupDir(s.Cgroups[c.ID])
		if err != nil {
			continue // readBack reports the error
		}
		set, err := enforce.ReadBack(cgroups, dir)
		if err == nil {
			limit, used := enforce.ReadMemory(cgroups, dir)
			plugin.Found(c.ID, enforce.Found{Set: set, Turn: c.Turn, Limit: limit, Used: used})
			read = true
		}
	}
	if read {
		return plugin.Sight()
	}
	return s
}

// pruneDecisions forgets the decisions about pods that are neither on the node nor in the API.
func (e *enforcer) pruneDecisions(plugin *enforce.Plugin) {
	if e.inAPI == nil {
		return
	}
	left := plugin.Prune(e.inAPI)
	e.decisions.prune(func(uid string) bool { return left[uid] || e.inAPI(uid) })
}
