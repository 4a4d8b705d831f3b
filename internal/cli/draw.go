package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/internal/wire"
)

// drawAnswers draws the node with the pods that it would admit. If it refused pods, drawAnswers
// prints the refusals to stderr and returns errRefused.
func drawAnswers(cmd *cobra.Command, n *whatif.Node, answers []whatif.Placed) error {
	if err := machineview.BerthsSVG(cmd.OutOrStdout(), n.Machine(), n.Berths()); err != nil {
		return err
	}
	refused := false
	for i := range answers {
		if a := &answers[i]; !a.Admitted {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", table.Text(a.Name+": "+a.Refusal.String()))
			refused = true
		}
	}
	if refused {
		return errRefused
	}
	return nil
}

// drawable returns an error if the flags and arguments do not allow a drawing.
func (q *nodesQuestion) drawable(watch watchFlags) error {
	switch {
	case q.only() == "":
		return Usagef("-o svg: want the name of one node, got %s", wire.Counted(len(q.names), "name"))
	case watch.on():
		return Usagef("-o svg --watch: want only one of these flags, because a drawing cannot be watched; berth serve shows a live drawing")
	}
	return nil
}

func (q *nodesQuestion) draw(cmd *cobra.Command, s *survey.Survey) error {
	b, err := s.Berths(q.only())
	if err != nil {
		return err
	}
	return machineview.BerthsSVG(cmd.OutOrStdout(), s.Machine(q.only()), b)
}
