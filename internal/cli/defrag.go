package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/defrag"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

var errNoPlan = errors.New("no plan makes room")

type defragQuestion struct {
	cluster clusterFlags
	output  output
	files   []string
	moves   int
	execute bool
	image   string
}

// NewDefragCommand returns the verb that plans room for pods.
func NewDefragCommand() *cobra.Command {
	q := defragQuestion{moves: defrag.DefaultMoves}
	cmd := &cobra.Command{
		Use:   "defrag POD | gang NAME | --for PODS",
		Short: "Plan room for a pod or a gang: which others would have to move, and where to",
		Long: `Plans the fewest moves that make room for a waiting pod (POD), for the pods that a gang lacks to start (gang NAME, or
podgroup NAME if a PodGroup declares it), or for pods of a file that do not exist yet (--for). Every pod that moves
has a place on another node before it leaves. Pods of ReplicaSets, StatefulSets and ReplicationControllers may move.
Pods of other controllers and pods with volumes move only with the annotation descheduler.alpha.kubernetes.io/evict:
"true". These pods never move: pods that no controller would replace, pods of DaemonSets, members of gangs, pods of a
higher priority or another scheduler, and pods that a PodDisruptionBudget or an annotation of the descheduler or the
cluster autoscaler keeps.

Without --execute nothing is written. Exit code 1 means that there is no plan. --execute carries out the plan for
waiting pods, one pod at a time: a placeholder pod takes the new place, the Eviction API evicts the pod, and its
replacement gets the place. Guard pods keep other pods off the nodes of the plan. If the cluster changes, defrag
stops; pods that have moved stay.`,
		Example: `  kubectl berth defrag train-0 -n training
  kubectl berth defrag train-0 -n training --execute
  kubectl berth defrag gang train -n training
  kubectl berth defrag --for pod.yaml
  berth defrag --for pod.yaml --snapshot cluster.berth`,
		Args:              arguments(0, 2, "the name of a pod that waits, or gang NAME"),
		ValidArgsFunction: q.cluster.completeSubject,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && len(q.files) > 0:
				return Usagef("defrag %s --for %s: want a pod or gang of the cluster, or a file, not both", strings.Join(args, " "), strings.Join(q.files, ","))
			case len(args) == 0 && len(q.files) == 0:
				return Usagef("defrag: want the name of a pod that waits, gang NAME, or a file with --for")
			case q.execute && len(args) == 0:
				return Usagef("--execute --for %s: create the pods first, and then name one of them, or gang NAME, instead of --for: Berth moves pods only to make room for pods that exist", strings.Join(q.files, ","))
			case q.execute && q.cluster.snapshot != "":
				return Usagef("--execute --snapshot %s: want a cluster: the pods of a snapshot cannot be moved", q.cluster.snapshot)
			case !q.execute && cmd.Flags().Changed("hold-image"):
				return Usagef("--hold-image %s: want --execute too, because without it no pod is created", q.image)
			case q.moves < 1:
				return Usagef("--moves %d: want at least 1", q.moves)
			}
			return q.run(cmd, args)
		},
	}
	cmd.Flags().StringSliceVar(&q.files, "for", nil, "files with pods or workloads to make room for, YAML or JSON; - is stdin; may be repeated")
	cmd.Flags().IntVar(&q.moves, "moves", q.moves, "how many pods may move to make room for one pod")
	cmd.Flags().BoolVar(&q.execute, "execute", false, "with POD: carry the plan out")
	cmd.Flags().StringVar(&q.image, "hold-image", moving.DefaultImage, "with --execute: image of the placeholder pods; it need not exist")
	q.cluster.register(cmd)
	q.output.register(cmd)
	return cmd
}

func (q *defragQuestion) run(cmd *cobra.Command, args []string) error {
	s, pods, err := q.read(cmd, args)
	if err != nil {
		return err
	}
	c, err := q.cluster.connect()
	if err != nil {
		return err
	}
	room, err := q.plan(cmd.Context(), c, s, pods)
	if err != nil {
		return err
	}
	writeNotes(cmd, room.Notes)
	if err := printCleaned(cmd, q.output, room, func(w io.Writer) error { return roomText(w, room) }); err != nil {
		return err
	}
	if room.Outcome != defrag.Found.String() {
		return errNoPlan
	}
	if !q.execute {
		return pods.partly()
	}
	return q.carryOut(cmd, c, room)
}

// carryOut moves the pods of a plan, and reports progress on stderr.
func (q *defragQuestion) carryOut(cmd *cobra.Command, c *survey.Cluster, room *query.Room) error {
	client, err := coreclient.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	tell := func(format string, args ...any) {
		fmt.Fprintln(cmd.ErrOrStderr(), table.Text(fmt.Sprintf(format, args...)))
	}
	done, err := moving.Run(cmd.Context(), room.Moving(), moving.Options{Pods: client, Tell: tell, Image: q.image})
	if err != nil {
		return fmt.Errorf("%w (%d of %s moved; moved pods stay on their new nodes)", err, done.Moved, wire.Counted(len(room.Moves), "pod"))
	}
	return nil
}

// read reads the arguments or, if there are none, the files. It needs no cluster.
func (q *defragQuestion) read(cmd *cobra.Command, args []string) (s subject, pods manifests, err error) {
	if len(args) == 0 {
		pods, err = readManifests(cmd, q.files, false)
		return s, pods, err
	}
	s, err = subjectOf("defrag", args)
	return s, manifests{new(manifest.Pods)}, err
}

// plan returns the plan for the subject or, if it has no name, for the pods.
func (q *defragQuestion) plan(ctx context.Context, c *survey.Cluster, s subject, pods manifests) (*query.Room, error) {
	o := query.RoomOptions{MostMoves: q.moves}
	switch {
	case s.gang:
		g, _, err := c.GangNamed(ctx, s.source, s.name)
		if err != nil {
			return nil, err
		}
		return query.MakeRoomForGang(ctx, c, g, o)
	case s.name != "":
		return query.MakeRoomFor(ctx, c, c.Namespace, s.name, o)
	}
	room, err := query.MakeRoom(ctx, c, pods.Templates, o)
	if err != nil {
		return nil, err
	}
	room.Notes = slices.Concat(pods.Notes, room.Notes)
	return room, nil
}

func roomText(w io.Writer, r *query.Room) error {
	switch {
	case r.Outcome == defrag.NoRoom.String():
		fmt.Fprintf(w, "No plan with the allowed number of moves (--moves) makes room. In the whole cluster, Berth may move %s.\n", wire.Counted(r.Movable, "pod"))
		if r.Ending > 0 {
			fmt.Fprintf(w, "%s ending: ask again afterwards, because there may be room then.\n", wire.Counted(r.Ending, "pod")+map[bool]string{true: " is", false: " are"}[r.Ending == 1])
		}
	case r.Outcome == defrag.GaveUp.String():
		fmt.Fprintf(w, "The search reached its limit before it found a plan: it has tried %s of pods on nodes. A plan may exist.\n", wire.Counted(r.Asked, "placement"))
	case len(r.Moves) == 0:
		fmt.Fprintln(w, "There is room already: nothing has to move.")
	case len(r.Moves) == 1:
		fmt.Fprintln(w, "1 pod moves:")
	default:
		fmt.Fprintf(w, "%d pods move, in this order:\n", len(r.Moves))
	}
	var rows [][]string
	for i := range r.Moves {
		m := &r.Moves[i]
		rows = append(rows, []string{strconv.Itoa(i + 1), m.Namespace + "/" + m.Name, m.From, dash(m.FromNUMA), m.To, dash(m.ToNUMA), m.Controller})
	}
	if len(rows) > 0 {
		if err := columns(w, "STEP | POD | FROM | NUMA | TO | NUMA | RECREATED BY", rows); err != nil {
			return err
		}
	}
	rows = nil
	for i := range r.Wanted {
		f := &r.Wanted[i]
		rows = append(rows, []string{f.Name, dash(f.Node), dash(f.NUMANodes), strings.Join(f.Asks, "; ")})
	}
	fmt.Fprintln(w)
	if err := columns(w, "ROOM FOR | NODE | NUMA | ASKS", rows); err != nil {
		return err
	}
	return stayingText(w, r)
}

// stayingText explains why pods are not moved, the most frequent reason first.
func stayingText(w io.Writer, r *query.Room) error {
	reasons := slices.Sorted(maps.Keys(r.Staying))
	slices.SortStableFunc(reasons, func(a, b string) int { return r.Staying[b] - r.Staying[a] })
	var rows [][]string
	for _, why := range reasons {
		rows = append(rows, []string{strconv.Itoa(r.Staying[why]), why})
	}
	return section(w, "", "PODS | NOT MOVED BECAUSE", rows)
}
