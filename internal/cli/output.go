package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/suggest"
)

// output is the -o flag of a verb: "table" for users, "json" and "yaml" for programs, and kubectl's
// templates.
type output struct {
	format string
	// more are additional formats that this verb supports.
	more []string
	// noHeaders means that only the rows of a table are printed.
	noHeaders bool
}

// The additional formats of the verbs that list objects of a cluster.
const (
	formatWide = "wide"
	formatName = "name"
	formatSVG  = "svg"
)

var (
	outputs   = []string{"table", "json", "yaml"}
	templates = []string{"jsonpath=TEMPLATE", "jsonpath-file=FILE", "go-template=TEMPLATE", "go-template-file=FILE"}
)

func (o *output) register(cmd *cobra.Command, more ...string) {
	o.format, o.more = "table", more
	cmd.Flags().StringVarP(&o.format, "output", "o", o.format, strings.Join(slices.Concat(outputs, more, templates), ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(slices.Concat(outputs, more), cobra.ShellCompDirectiveNoFileComp))
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if before != nil {
			if err := before(cmd, args); err != nil {
				return err
			}
		}
		return o.check()
	}
}

// registerNoHeaders adds kubectl's flag --no-headers to a verb that prints lists.
func (o *output) registerNoHeaders(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print only the rows of the table, without the header and the lines below")
}

// rows prints rows of a table, with the header unless noHeaders is set.
func (o *output) rows(w io.Writer, header string, rows [][]string) error {
	if o.noHeaders {
		grid := gridOf(header)
		return grid.Print(w, rows)
	}
	return columns(w, header, rows)
}

// The method is reports whether the user has selected the given format.
func (o *output) is(format string) bool { return o.format == format }

// check returns an error for an unknown format. It runs before the verb.
func (o *output) check() error {
	o.format = cmp.Or(o.format, "table") // as in kubectl, "" means the default
	if slices.Contains(outputs, o.format) || slices.Contains(o.more, o.format) {
		return nil
	}
	_, err := o.template()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		known := slices.Concat(outputs, o.more, templates)
		return Usagef("--output %q: want %s%s", o.format, strings.Join(known, ", "), suggest.DidYouMean(o.format, known))
	}
	if err != nil {
		return Usagef("--output %q: %w", o.format, err)
	}
	return nil
}

// template returns the printer for a format that contains a template.
func (o *output) template() (printers.ResourcePrinter, error) {
	return genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(o.format)
}

// print writes the value as JSON, as YAML or through a template. For other formats it calls the
// function table.
func (o *output) print(w io.Writer, value any, table func(io.Writer) error) error {
	switch o.format {
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
	p, err := o.template()
	if err != nil {
		return table(w)
	}
	return fill(w, p, value)
}

// fill prints a value through a template. The template gets the value's JSON form.
func fill(w io.Writer, p printers.ResourcePrinter, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var object map[string]any
	if bytes.HasPrefix(data, []byte("[")) {
		data = slices.Concat([]byte(`{"items":`), data, []byte("}")) // templates get a list as an object with items, as in kubectl
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	return p.PrintObj(&unstructured.Unstructured{Object: object}, w)
}
