package cli

import (
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// headingKey is the annotation that has the heading of a flag in help. Flags without a heading come
// first.
const headingKey = "berth.dev/heading"

// The headings in help, in their order.
const (
	nodeHeading    = "Flags that describe a node"
	clusterHeading = "Flags of a cluster"
)

// helpColumns is the maximum width of help in columns.
const helpColumns = 120

// The function under calls register, and puts the flags that register adds to the verb under the
// heading.
func under(heading string, cmd *cobra.Command, register func()) {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	register()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			_ = cmd.Flags().SetAnnotation(f.Name, headingKey, []string{heading})
		}
	})
}

// headings returns the help text of a verb's flags, grouped by heading.
func headings(flags *pflag.FlagSet) string {
	var b strings.Builder
	for _, heading := range []string{"", nodeHeading, clusterHeading} {
		some := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.VisitAll(func(f *pflag.Flag) {
			if strings.Join(f.Annotations[headingKey], "") == heading {
				some.AddFlag(f)
			}
		})
		if !some.HasAvailableFlags() {
			continue
		}
		if heading != "" {
			fmt.Fprintf(&b, "\n%s:\n", heading)
		}
		b.WriteString(some.FlagUsagesWrapped(helpColumns))
	}
	return b.String()
}

// addHeadings registers headings with cobra. It does so only once, because cobra's template
// functions are global.
var addHeadings = sync.OnceFunc(func() { cobra.AddTemplateFunc("headings", headings) })

// usageTemplate returns cobra's template, changed to print the headings.
func usageTemplate(root *cobra.Command) string {
	addHeadings()
	return strings.ReplaceAll(root.UsageTemplate(), "{{.LocalFlags.FlagUsages ", "{{headings .LocalFlags ")
}
