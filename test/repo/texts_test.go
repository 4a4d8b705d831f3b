package repo

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The maximum widths of lines. A tab counts four columns.
const (
	commentColumns  = 100
	documentColumns = 120
)

// TestCommentsAreNarrow limits whole-line comments to 100 columns. Markers for tools may be longer,
// because they cannot be wrapped.
func TestCommentsAreNarrow(t *testing.T) {
	for _, file := range goFiles(t) {
		if isGenerated(t, file) {
			continue
		}
		output := false // inside the expected output of an Example
		for n, line := range linesOf(t, file) {
			text := strings.TrimSpace(line)
			output = text == "// Output:" || output && strings.HasPrefix(text, "//")
			if output || !strings.HasPrefix(text, "//") || isMarker(text) {
				continue
			}
			if columns(line) > commentColumns {
				t.Errorf("%s:%d: a comment of %d columns: want at most %d", file, n+1, columns(line), commentColumns)
			}
		}
	}
}

// TestDocumentsAreNarrow limits documents to 120 columns, except tables and code.
func TestDocumentsAreNarrow(t *testing.T) {
	for _, file := range documents(t) {
		code := false
		for n, line := range linesOf(t, file) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			unbreakable := strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "![")
			if !code && !unbreakable && utf8.RuneCountInString(line) > documentColumns {
				t.Errorf("%s:%d: a line of %d columns: want at most %d", file, n+1, utf8.RuneCountInString(line), documentColumns)
			}
		}
	}
}

// link is a link of a document to another one or to a heading: a file, an anchor, or both.
var link = regexp.MustCompile(`\]\(([^):#\s]*)(?:#([^)\s]+))?\)`)

// TestLinksLeadSomewhere: every file that a document links to exists, and has the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	anchors := map[string][]string{}
	for _, file := range documents(t) {
		anchors[file] = anchorsOf(linesOf(t, file))
	}
	links := 0
	for _, file := range documents(t) {
		for n, line := range linesOf(t, file) {
			for _, l := range link.FindAllStringSubmatch(line, -1) {
				links++
				to := file
				if l[1] != "" {
					to = path.Join(path.Dir(file), l[1])
				}
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s:%d: %v", file, n+1, err)
				}
				if known, ok := anchors[to]; ok && l[2] != "" && !slices.Contains(known, l[2]) {
					t.Errorf("%s:%d: %s has no heading #%s", file, n+1, to, l[2])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links found: has their form changed?", links)
	}
}

// anchorsOf lists the anchors of headings as GitHub makes them: lower case, hyphens instead of
// blanks, no other punctuation.
func anchorsOf(lines []string) (out []string) {
	for _, line := range lines {
		text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return r
			}
			return -1
		}, strings.ToLower(text)))
	}
	return out
}

// TestEveryPackageSaysWhatItIs checks that exactly one file of each package has a package comment.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	comments := map[string]int{}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		dir := path.Dir(file)
		comments[dir] += 0
		if parse(t, file, parser.PackageClauseOnly).Doc != nil {
			comments[dir]++
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s: %d package comments: want one", dir, n)
		}
	}
}

// word is a row of the table of words in docs/architecture.md: a word, and the types that it names.
// There are several types if packages have their own forms of the same thing.
type word struct {
	name  string
	types []string
}

// TestWordsMeanOneThing compares the words of docs/architecture.md with the code. The types of each
// word exist, no word occurs twice, and no package exports an unlisted type of that name.
func TestWordsMeanOneThing(t *testing.T) {
	words := readWords(t)
	exported := exportedTypes(t)
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w.name] {
			t.Errorf("docs/architecture.md: %q occurs twice", w.name)
		}
		seen[w.name] = true
		for _, typ := range w.types {
			name := typ[strings.LastIndex(typ, ".")+1:]
			if !slices.Contains(exported[name], typ) {
				t.Errorf("docs/architecture.md: %q: %s does not exist", w.name, typ)
			}
			for _, other := range exported[name] {
				if !slices.Contains(w.types, other) {
					t.Errorf("docs/architecture.md: %q: %s has that name as well: rename it, or list it", w.name, other)
				}
			}
		}
	}
	if len(words) < 20 {
		t.Errorf("docs/architecture.md: %d words found: has its table changed its form?", len(words))
	}
}

var (
	wordRow  = regexp.MustCompile(`^\| \*\*([^*]+)\*\* \| [^|]+ \|([^|]*)\|$`)
	wordType = regexp.MustCompile("`([a-z0-9/]+\\.[A-Za-z]+)`")
)

func readWords(t *testing.T) []word {
	t.Helper()
	var words []word
	for n, line := range linesOf(t, "docs/architecture.md") {
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		m := wordRow.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("docs/architecture.md:%d: want | **word** | meaning | types or nothing |", n+1)
			continue
		}
		w := word{name: m[1]}
		for _, typ := range wordType.FindAllStringSubmatch(m[2], -1) {
			w.types = append(w.types, typ[1])
		}
		words = append(words, w)
	}
	return words
}

// exportedTypes lists the types that packages declare, by name. It omits the API, whose types are
// named like the objects. Under test/ it includes only the models of the protocol.
func exportedTypes(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "api/") ||
			strings.HasPrefix(file, "test/") && !strings.HasPrefix(file, "test/protocol/") {
			continue
		}
		for _, decl := range parse(t, file, parser.SkipObjectResolution).Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					out[s.Name.Name] = append(out[s.Name.Name], path.Dir(file)+"."+s.Name.Name)
				}
			}
		}
	}
	return out
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, mode|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func documents(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d documents found (%v): run the test in the root of the module", len(files), err)
	}
	top, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	suites, err := filepath.Glob("test/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(files, top, suites)
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return lines
}

func isGenerated(t *testing.T, file string) bool {
	t.Helper()
	lines := linesOf(t, file)
	return slices.ContainsFunc(lines[:min(5, len(lines))], func(line string) bool { return strings.Contains(line, "DO NOT EDIT") })
}

// isMarker reports whether a comment is for a tool (//go:, //nolint, // +kubebuilder), or is a line
// of a table or of code, which gofmt indents by a tab.
func isMarker(text string) bool {
	return strings.HasPrefix(text, "//\t") || strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//nolint") || strings.HasPrefix(text, "// +")
}

func columns(line string) int {
	n := 0
	for _, r := range line {
		if r == '\t' {
			n += 4 - n%4
			continue
		}
		n++
	}
	return n
}
