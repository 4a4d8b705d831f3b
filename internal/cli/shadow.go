package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/atomicfile"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/survey/source"
)

// shadowFlags select the process in shadow mode.
type shadowFlags struct {
	cluster clusterFlags
	url     string
}

// NewShadowCommand returns the verb that shows the findings of shadow mode.
func NewShadowCommand() *cobra.Command {
	var f shadowFlags
	var o output
	var capture string
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Show how often Berth's predictions came true while other schedulers placed the pods",
		Long: `In shadow mode berth-scheduler places no pod. For every pod that another scheduler binds, it predicts the kubelet's
decision and compares it with the actual one. This verb prints a summary of the last 24 hours, the counts, and the
last pods that were rejected, that Berth would have placed elsewhere, or about which it was wrong. --capture writes
the state at a wrong prediction to a file, which other verbs read with --snapshot.`,
		Example: `  kubectl berth shadow
  kubectl berth shadow -o json
  kubectl berth shadow --capture wrong-1f3c.berth
  berth explain train-0 -n training --snapshot wrong-1f3c.berth`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if capture != filepath.Base(capture) && capture != "" {
				return Usagef("--capture %q: want a name from the column CAPTURE", capture)
			}
			if capture != "" {
				data, err := f.get(cmd, "captures/"+url.PathEscape(capture))
				if err != nil {
					return err
				}
				return atomicfile.Write(capture, 0o600, func(w io.Writer) error {
					_, err := w.Write(data)
					return err
				})
			}
			data, err := f.get(cmd, "shadow")
			if err != nil {
				return err
			}
			var v shadow.View
			if err := json.Unmarshal(data, &v); err != nil {
				return fmt.Errorf("the answer of shadow mode cannot be read: %w", err)
			}
			return printCleaned(cmd, o, v, func(w io.Writer) error { return shadowText(w, &v) })
		},
	}
	cmd.Flags().StringVar(&f.url, "url", "", "address of shadow mode, such as http://127.0.0.1:10261, in place of the Service berth-shadow")
	cmd.Flags().StringVar(&capture, "capture", "", "write the capture with this name (column CAPTURE) to a file with the same name")
	f.cluster.register(cmd)
	o.register(cmd)
	return cmd
}

// get requests a path from the process in shadow mode.
func (f *shadowFlags) get(cmd *cobra.Command, path string) ([]byte, error) {
	if f.cluster.snapshot != "" {
		return nil, Usagef("shadow --snapshot %s: want a cluster: a snapshot has no predictions", f.cluster.snapshot)
	}
	if used := changedOf(cmd, schedulerFlags); used != "" {
		return nil, Usagef("shadow --%s: leave out --%s, because the process in shadow mode has its own arguments", used, used)
	}
	if err := source.CheckShadowURL(f.url); err != nil {
		return nil, Usagef("--url %w", err)
	}
	at := source.Shadow{URL: f.url, Namespace: f.cluster.heartbeats}
	if f.url == "" {
		var err error
		if at.Config, err = f.cluster.restConfig(); err != nil {
			return nil, err
		}
	}
	return at.Ask(cmd.Context(), path)
}

func shadowText(w io.Writer, v *shadow.View) error {
	fmt.Fprintf(w, "%s\n\n", v.Summary)
	d := &v.Day
	var rows [][]string
	row := func(what string, n int, means string) { rows = append(rows, []string{what, strconv.Itoa(n), means}) }
	row("bound", d.Pods, fmt.Sprintf("%d pinned; %d waiting for the kubelet's answer", d.Pinned, v.Open))
	row("judged", d.Judged, "the sum of the next seven rows")
	row("exact", d.Exact, "admitted, with the CPUs, memory and devices that were predicted")
	row("byVerdict", d.ByVerdict, "admitted as predicted; the CPUs could not be predicted")
	row("either", d.Either, "the answer depended on pods that were leaving, and was one of the predicted answers")
	row("foretold", d.Foretold, "rejected as predicted")
	row("wrong", d.Wrong, "admitted, but with other CPUs, memory or devices than predicted")
	row("missed", d.Missed, "rejected, but predicted to be admitted")
	row("falseAlarms", d.FalseAlarms, "admitted, but predicted to be rejected")
	for _, r := range shadow.Reasons {
		if n := d.NotJudged[r.Reason]; n > 0 {
			row("notJudged", n, r.Text)
		}
	}
	row("elsewhere", d.Elsewhere, "rejected, but another node would have admitted them")
	row("split", d.Split, "on more NUMA nodes than another node would have needed")
	row("stranded", d.Stranded, "devices left without CPUs, which another node would have avoided")
	row("notLooked", d.NotLooked, "Berth did not look for another node for them")
	if err := columns(w, "24 HOURS | PODS | MEANING", rows); err != nil {
		return err
	}
	if err := shadowClaims(w, v.Claims); err != nil || len(v.Pods) == 0 {
		return err
	}
	rows = nil
	for i := range v.Pods {
		r := &v.Pods[i]
		instead := ""
		if r.Instead != nil {
			instead = fmt.Sprintf("%s (%s here)", r.Instead.Node, r.Instead.Why)
		}
		rows = append(rows, []string{r.Namespace + "/" + r.Name, r.Node, shadowAnswer(r.Expected), shadowAnswer(r.Got), r.Outcome(), dash(instead), dash(r.Capture)})
	}
	fmt.Fprintln(w)
	return columns(w, "POD | NODE | PREDICTED | KUBELET | RESULT | BERTH'S NODE | CAPTURE", rows)
}

// shadowClaims prints the alignment of the devices of pods with ResourceClaims.
func shadowClaims(w io.Writer, c *shadow.Claims) error {
	if c == nil {
		return nil
	}
	text := countsText(c.Pods)
	if c.NotLooked > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s, not looked at: %d", text, c.NotLooked), ", ")
	}
	fmt.Fprintf(w, "\nPods with ResourceClaims, by the alignment of their devices with their CPUs: %s.\n", text)
	var rows [][]string
	for i := range c.Misaligned {
		p := &c.Misaligned[i]
		rows = append(rows, []string{p.Namespace + "/" + p.Name, p.Node, p.Scheduler, p.Why})
	}
	return section(w, "", "MISALIGNED | NODE | SCHEDULER | WHY", rows)
}

// shadowAnswer describes a kubelet's real or predicted answer in a column.
func shadowAnswer(a *shadow.Answer) string {
	if a == nil {
		return "-"
	}
	return strings.Join(slices.DeleteFunc([]string{a.Outcome, a.Reason, a.Certainty}, func(s string) bool { return s == "" }), " ")
}
