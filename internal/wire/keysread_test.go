package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// notOfPods are constants that have the form of a key but are not keys of pods. They belong to
// other objects or to containers, or are prefixes of other keys.
var notOfPods = []string{
	OwnPrefix, tokensPrefix, koordinatorLabels, koordinatorGangs, string(GangWholeCondition), string(ResizeCondition),
	koordinatorPolicy, koordinatorBind, koordinatorFill, koordinatorMemory, // of Nodes
	"node.koordinator.sh/cpu-topology", "node.koordinator.sh/cpu-shared-pools", // of NodeResourceTopologies, like the next line
	"node.koordinator.sh/pod-cpu-allocs", "kubelet.koordinator.sh/cpu-manager-policy",
}

// TestKeysReadIsWhole: a key of this package that is in no table would be missing in the writes of
// the hostile tenant of test/hostile.
func TestKeysReadIsWhole(t *testing.T) {
	annotations, labels := KeysRead()
	all := slices.Concat(annotations, labels, notOfPods)
	found := 0
	for key, where := range keyConstants(t) {
		found++
		if !slices.Contains(all, key) {
			t.Errorf("%s: %q is not among KeysRead", where, key)
		}
	}
	if found < 20 {
		t.Errorf("%d constants look like keys: the test does not see them", found)
	}
	for _, key := range append(annotations, labels...) {
		if errs := validation.IsQualifiedName(strings.ToLower(key)); len(errs) > 0 {
			t.Errorf("%q is no key: %v", key, errs)
		}
	}
}

// keyConstants returns the constants of this package that have the form of a key with a domain,
// each with its position.
func keyConstants(t *testing.T) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		collectKeys(fset, file, out)
	}
	return out
}

// collectKeys adds such constants of a file to out.
func collectKeys(fset *token.FileSet, file *ast.File, out map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		d, ok := n.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			return true
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				domain, _, slash := strings.Cut(text, "/")
				if err == nil && slash && strings.Contains(domain, ".") && !strings.Contains(text, " ") {
					out[text] = fset.Position(l.Pos()).String()
				}
			}
			return true
		})
		return true
	})
}
