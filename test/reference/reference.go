// Package reference writes pages of docs/reference from the code. Its callers are tests, which
// compare the pages with the code. `make reference` writes the pages.
package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a line of a table of metrics.
type Metric struct {
	Kind string
	// Text is the String of a Desc.
	Text string
}

// Of returns the metrics of collectors. A metric of an unknown kind counts as a gauge.
func Of(collectors ...prometheus.Collector) (out []Metric) {
	for _, c := range collectors {
		kind := "gauge"
		for _, k := range []string{"counter", "histogram"} {
			if strings.Contains(strings.ToLower(fmt.Sprintf("%T", c)), k) {
				kind = k
			}
		}
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			c.Describe(descs)
		}()
		for d := range descs {
			out = append(out, Metric{kind, d.String()})
		}
	}
	return out
}

var descText = regexp.MustCompile(`^Desc{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", constLabels: {.*}, variableLabels: [{\[](.*)[}\]]}$`)

// MetricTable returns a table of metrics by name.
func MetricTable(t *testing.T, all []Metric) string {
	t.Helper()
	var lines []string
	for _, one := range all {
		m := descText.FindStringSubmatch(one.Text)
		if m == nil {
			t.Fatalf("a metric says %s", one.Text)
		}
		labels := strings.Join(strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' }), ", ")
		help := strings.TrimPrefix(strings.ReplaceAll(m[2], `\"`, `"`), "[ALPHA] ")
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[1], one.Kind, labels, Cell(help)))
	}
	slices.Sort(lines)
	return "| metric | kind | labels | meaning |\n|---|---|---|---|\n" + strings.Join(lines, "")
}

// Cell returns a text as a cell of a table.
func Cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(strings.TrimSpace(text))
}

// Field is a field of a struct that people write in YAML.
type Field struct {
	// Name is the field's name in Go, JSON its name in YAML.
	Name, JSON string
	// Doc is its comment, on one line.
	Doc string
}

// Fields returns the fields of a struct that have a comment, in the order of the source file.
func Fields(t *testing.T, file, structure string) (out []Field) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != structure {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if f.Doc == nil || f.Tag == nil {
				continue
			}
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			out = append(out, Field{f.Names[0].Name, name, doc})
		}
		return false
	})
	if len(out) == 0 {
		t.Fatalf("%s: no struct %s with comments", file, structure)
	}
	return out
}
