package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/reference"
)

// TestReference compares docs/reference/berth.md with the command: every verb with its arguments
// and flags. `make reference` writes it.
func TestReference(t *testing.T) {
	t.Setenv("HOME", "/root")
	root := newRoot("berth")
	var b strings.Builder
	b.WriteString("# Reference of berth\n\nThe verbs of `berth` with their flags, as `berth VERB --help` has them. Written by `make reference`.\n" +
		"[cli.md](../cli.md) says what they are for.\n")
	b.WriteString("\nVerbs about a cluster also take kubectl's flags; [Flags of a cluster](#flags-of-a-cluster) lists the ones that are shown in\nhelp.\n")
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

// flagsOf separates a verb's own flags from those that select a cluster.
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
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, value, reference.Cell(f.Usage))
	}
}

// TestReferenceKinds compares docs/reference/kinds.md with deploy/crds: the fields of Berth's own
// kind, and a description of the others. `make reference` writes it.
func TestReferenceKinds(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Kinds\n\nThe fields of Berth's own kind, as `kubectl explain nodetopology` tells them, and the kinds of others whose definitions\n" +
		"come with Berth. [Dialects](../dialects.md) has all that it reads. Written by `make reference`.\n")
	var others []string
	files, err := filepath.Glob("../../deploy/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no kinds: %v", err)
	}
	for _, file := range files {
		d := readKind(t, file)
		if d.Spec.Group != "berth.dev" {
			var versions []string
			for _, v := range d.Spec.Versions {
				versions = append(versions, v.Name)
			}
			others = append(others, fmt.Sprintf("| %s | `%s/%s` | %s |\n", d.Spec.Names.Kind, d.Spec.Group, strings.Join(versions, ", "), d.Spec.Scope))
			continue
		}
		for _, v := range d.Spec.Versions {
			fmt.Fprintf(&b, "\n## %s, %s/%s\n\n%s\n\nScope: %s.\n\n| field | type | meaning |\n|---|---|---|\n", d.Spec.Names.Kind, d.Spec.Group, v.Name,
				strings.Join(strings.Fields(v.Schema.Root.Description), " "), d.Spec.Scope)
			for _, part := range []string{"spec", "status"} {
				fieldRows(&b, part, v.Schema.Root.Properties[part])
			}
		}
	}
	b.WriteString("\n## Kinds of others\n\nTheir fields are told by whoever defined them.\n\n| kind | version | scope |\n|---|---|---|\n" + strings.Join(others, ""))
	golden.File(t, "../../docs/reference/kinds.md", b.String())
}

// kind is the part of a CustomResourceDefinition that its reference page describes.
type kind struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				Root schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
}

func readKind(t *testing.T, file string) (out kind) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

// fieldRows writes rows for a field and those below it.
func fieldRows(b *strings.Builder, path string, s schema) {
	what := s.Type
	if s.Items != nil {
		what = "list of " + s.Items.Type
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		what = strings.Join(values, ", ")
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, what, reference.Cell(strings.Join(strings.Fields(s.Description), " ")))
	below, in := s.Properties, path+"."
	if s.Items != nil {
		below, in = s.Items.Properties, path+"[]."
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		fieldRows(b, in+name, below[name])
	}
}
