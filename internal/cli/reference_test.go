package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/internal/golden"
)

// TestReference holds docs/reference/berth.md against the command: every verb with its words and
// its flags. `make reference` writes it.
func TestReference(t *testing.T) {
	t.Setenv("HOME", "/root")
	root := newRoot("berth")
	var b strings.Builder
	b.WriteString("# Reference of berth\n\nThe verbs of `berth` with their flags, as `berth VERB --help` has them. Written by `make reference`.\n" +
		"[cli.md](../cli.md) says what they are for.\n")
	b.WriteString("\nVerbs about a cluster also take kubectl's flags; [Flags of a cluster](#flags-of-a-cluster) lists those that are shown in\nhelp.\n")
	var shared []*pflag.Flag
	for _, verb := range root.Commands() {
		if !verb.IsAvailableCommand() {
			continue
		}
		own, cluster := flagsOf(verb)
		fmt.Fprintf(&b, "\n## berth %s\n\n    berth %s\n\n%s.\n", verb.Name(), verb.Use, verb.Short)
		flagTable(&b, own)
		if len(cluster) > 0 {
			b.WriteString("\nIt takes the flags of a cluster, too.\n")
			shared = cluster
		}
	}
	b.WriteString("\n## Flags of a cluster\n")
	flagTable(&b, shared)
	golden.File(t, "../../docs/reference/berth.md", b.String())
}

// flagsOf sorts the flags of a verb into its own and those about which cluster is read.
func flagsOf(verb *cobra.Command) (own, cluster []*pflag.Flag) {
	var which clusterFlags
	of := &cobra.Command{}
	which.register(of)
	verb.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case of.Flags().Lookup(f.Name) != nil && verb.Flags().Lookup("heartbeat-namespace") != nil:
			cluster = append(cluster, f)
		default:
			own = append(own, f)
		}
	})
	return own, cluster
}

func flagTable(b *strings.Builder, flags []*pflag.Flag) {
	flags = slices.DeleteFunc(slices.Clone(flags), func(f *pflag.Flag) bool { return f.Name == "help" })
	if len(flags) == 0 {
		return
	}
	b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
	for _, f := range flags {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := ""
		if d := f.DefValue; d != "" && d != "[]" && d != "false" {
			value = "`" + d + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, value, strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(f.Usage))
	}
}
