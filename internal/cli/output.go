package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the -o flag of a verb: "table" for people, "json" and "yaml" for programs.
type output string

func (o *output) register(cmd *cobra.Command) {
	*o = "table"
	cmd.Flags().StringVarP((*string)(o), "output", "o", "table", strings.Join(outputs, "|"))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

var outputs = []string{"table", "json", "yaml"}

// check refuses an unknown format before any work is done.
func (o output) check() error {
	if !slices.Contains(outputs, string(o)) {
		return Usagef("--output %q: want %s", string(o), strings.Join(outputs, ", "))
	}
	return nil
}

// print writes value as JSON or YAML, or calls table.
func (o output) print(w io.Writer, value any, table func(io.Writer) error) error {
	switch o {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	case "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return table(w)
}

// bytesText prints an amount of memory in the largest binary unit that divides it.
func bytesText(n uint64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprint(n)
}
