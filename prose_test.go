package berth

import (
	"bufio"
	"fmt"
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

// The widest lines that a reader is asked to follow. Tabs count four columns.
const (
	commentColumns  = 100
	documentColumns = 120
)

// TestCommentsAreNarrow keeps whole-line comments to 100 columns. Markers for tools may be longer:
// they cannot be broken.
func TestCommentsAreNarrow(t *testing.T) {
	for _, file := range goFiles(t) {
		if isGenerated(t, file) {
			continue
		}
		output := false // what an Example prints
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

// TestDocumentsAreNarrow keeps documents to 120 columns, except tables and code.
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

// anchorsOf lists the anchors of headings as GitHub makes them: lower case, blanks become hyphens,
// other punctuation goes.
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

// TestEveryPackageSaysWhatItIs wants one package comment in each package, in one of its files.
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

// word is a row of docs/words.md: a word, and the types that it names: one, or more where packages
// have forms of the same thing.
type word struct {
	name  string
	types []string
}

// TestWordsMeanOneThing holds docs/words.md against the code. The types of each word exist, no word
// is there twice, and no package exports a type of that name that is not listed.
func TestWordsMeanOneThing(t *testing.T) {
	words := readWords(t)
	exported := exportedTypes(t)
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w.name] {
			t.Errorf("docs/words.md: %q stands there twice", w.name)
		}
		seen[w.name] = true
		for _, typ := range w.types {
			name := typ[strings.LastIndex(typ, ".")+1:]
			if !slices.Contains(exported[name], typ) {
				t.Errorf("docs/words.md: %q: %s does not exist", w.name, typ)
			}
			for _, other := range exported[name] {
				if !slices.Contains(w.types, other) {
					t.Errorf("docs/words.md: %q: %s has that name as well: rename it, or list it", w.name, other)
				}
			}
		}
	}
	if len(words) < 20 {
		t.Errorf("docs/words.md: %d words found: has its table changed its form?", len(words))
	}
}

var (
	wordRow  = regexp.MustCompile(`^\| \*\*([^*]+)\*\* \| [^|]+ \|([^|]*)\|$`)
	wordType = regexp.MustCompile("`([a-z0-9/]+\\.[A-Za-z]+)`")
)

func readWords(t *testing.T) []word {
	t.Helper()
	var words []word
	for n, line := range linesOf(t, "docs/words.md") {
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		m := wordRow.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("docs/words.md:%d: want | **word** | meaning | types or nothing |", n+1)
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

// exportedTypes lists the types that packages declare, by their last names. The API has words of
// its own, which are those of the objects. Of what stands under test/, the models of the protocol
// share the words.
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
	return append(files, top...)
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

// isMarker says whether a comment speaks to a tool (//go:, //nolint, // +kubebuilder), or is a line
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

// An idiom is a turn of phrase that a native speaker would not use, with better words beside it.
type idiom struct {
	name   string
	is     *regexp.Regexp
	fine   *regexp.Regexp // marks a match that is good English all the same; nil for none
	better string
}

// idioms are kept out of what people read. Each is German syntax in English words, or went out of
// use long ago. A sentence gets better when it says who does what, in that order.
var idioms = []idiom{
	phrase("those that", `those that`, "", "repeat the noun: pods that"),
	phrase("those of which", `those (of|from|on|in|by|with|for|to|without) (which|whom)`, "", "repeat the noun: pods whose"),
	phrase("of which", `(\w+ )?of which`, `^(first|last|highest|lowest|quarter|third|field|none|some|all|most|each|one|two|three|both|many|few|half|part|any|either|neither|much|least) `, "whose; a sentence of its own"),
	phrase("of whom", `(\w+ )?of whom`, `^(first|last|highest|lowest|quarter|third|field|none|some|all|most|each|one|two|three|both|many|few|half|part|any|either|neither|much|least) `, "whose; a sentence of its own"),
	phrase("has X be Y", `(has|have|had) [\w' -]{1,40}? be \w+`, `\b(to|that|which|what|than|it|been|no|not|nothing|who|may|can|must|could|would|should|will|and|or|for|by|in|on|at|as|when|where|with|does|do|did|never|is|are|was|were|from|more|less)\b`, "makes, lets, tells; or the verb itself: wakes the pods"),
	phrase("has X go", `(has|have|had) (the |a |an |its |their |every |each |all |another |both |\w+s )([\w'-]+ ){0,4}?(go|come|wait|begin|start|run|stay|hear|show|die|make|take|see|get|give|find|fail|write|forget|return|admit|leave)`, `\b(to|that|which|what|than|it|been|no|not|nothing|who|may|can|must|could|would|should|will|and|or|for|by|in|on|at|as|when|where|with|does|do|did|never|is|are|was|were|from|more|less)\b`, "makes, lets, tells ... to"),
	phrase("anew", `anew`, "", "again; from the start"),
	phrase("tell of", `(tell|tells|told|telling) of`, "", "reports, lists, describes; tells ... about"),
	phrase("is to be", `(is|are|was|were) (not )?to be`, "", "should be, must be, will be"),
	phrase("that is to", `(that|who|which|nobody|somebody|nothing) (is|are|was|were) to`, "", "that should, that must, that will"),
	phrase("known of", `(is|are|was|were|be|been|nothing|what) known of`, "", "known about"),
	phrase("say of", `(say|says|said|saying) (nothing |more |something |little |anything |so )?of( late)?`, `late$`, "says about; reports for; describes"),
	phrase("says on which", `(say|says|said|tell|tells|know|knows|known|decide|decides|asks?|asked|shows?|sees?|finds? out|remembers?) (from|on|with|by|of|in|to|for|at|under|through|into|after|upon) (which|whom|whose|how (many|much|long))`, "", "the preposition at the end: says which CPUs it runs on"),
	phrase("since when", `(since|until) when`, "", "when ... began; how long"),
	phrase("of how many", `(\w+ )?of how (many|much|long)`, `^out `, "how many ... there are; at most this many"),
	phrase("is for how long", `(is|are|was|were) (by|for|with|from|on|after|at|of|in|to) how`, "", "is how long; is the CPUs that"),
	phrase("but for", `but for`, "", "except; apart from; without"),
	phrase("is no more", `(is|are|was|were|be|exists?|needs?|there) no more( \w+)?( than)?`, `than$`, "is gone; no longer"),
	phrase("not any more", `not any more`, "", "no longer"),
	phrase("to be had", `to be had`, "", "available"),
	phrase("for want of", `for want of`, "", "because there is no"),
	phrase("what X has of", `what ([\w.'-]+ ){1,4}?(has|have|had) of`, `\b(is|are|was|were|said|says|say|one|both|tells?|knows?)\b`, "how much of ... X has; X's"),
	phrase("gone by", `(is|are|was|were) gone by( then)?`, `then$`, "X goes by; X uses"),
	phrase("foretold", `foret(ell|ells|old|elling)`, "", "predicted"),
	phrase("Whoever", `(^|[.:;] )whoever`, "", "anyone who; or the name of who it is"),
	phrase("stands in", `(stands?|stood) (in|there|where|below|above|on)( for| [\w' ]{0,30}?way)?`, ` way$| for$`, "is in, is listed in; X says"),
	phrase("is asked of", `(is|are|was|were|be) (asked|taken|hidden|learnt|learned|demanded) of`, "", "somebody asks X; is taken from"),
	phrase("were it", `(^|[.:;] )(were|had|should) (there|it|one|each|an?|the|nobody|no|all|both|they|that|any|somebody)`, "", "if it were"),
	phrase("gone through", `(is|are|was|were) gone through`, "", "X looks at each"),
	phrase("himself", `(him|himself|he|his)`, "", "they, them, their"),
	phrase("is there still", `(is|are|was|were) there (still|already|yet)`, "", "is still there"),
	phrase("those alone that", `(\w+ )?alone (that|who)`, `^(leave|leaves|left|let|lets) `, "only pods that"),
	phrase("be it", `be (it|they) \w+`, "", "whether it is"),
	phrase("excepted", `excepted`, "", "except for"),
	phrase("shall", `shall`, "", "should, must, will"),
	phrase("another than", `(another|anything else|something else|nothing else|nobody else) than`, "", "other than; nothing but"),
	phrase("from 1.36 on", `from v?\d[\d.]* on`, "", "since 1.36; 1.36 and later"),
	phrase("there are of", `there (is|are|was|were) of`, "", "how many X there are"),
	phrase("ever more", `ever more`, "", "more and more"),
	phrase("in the moment", `in the moment`, "", "at the moment"),
	phrase("is let", `(is|are|was|were|be|been|being) let`, "", "may; is admitted; X lets it"),
}

// phrase makes an idiom of whole words, in whatever case they are written.
func phrase(name, is, fine, better string) idiom {
	i := idiom{name: name, is: regexp.MustCompile(`(?i)(?:\b|^)(?:` + is + `)\b`), better: better}
	if fine != "" {
		i.fine = regexp.MustCompile(`(?i)` + fine)
	}
	return i
}

// in returns where text uses the idiom, one string for each time.
func (i idiom) in(text string) []string {
	return slices.DeleteFunc(i.is.FindAllString(text, -1), func(s string) bool { return i.fine != nil && i.fine.MatchString(s) })
}

// passage is some prose and where it begins.
type passage struct {
	file string
	line int
	text string
}

// commentLinesPerIdiom is how many lines of comments there are at least for each idiom in them.
const commentLinesPerIdiom = 300

// TestProseInComments wants fewer than one idiom in 300 lines of comments of Go files, tests
// included.
func TestProseInComments(t *testing.T) {
	passages, lines := comments(t)
	var found []string
	countIdioms(passages, func(p passage, i idiom, words string) {
		found = append(found, fmt.Sprintf("%s:%d: %q: better %s", p.file, p.line, words, i.better))
	})
	t.Logf("%d idioms in %d lines of comments", len(found), lines)
	if len(found)*commentLinesPerIdiom >= lines {
		t.Errorf("%d idioms in %d lines of comments: want fewer than one in %d\n%s", len(found), lines, commentLinesPerIdiom, strings.Join(found, "\n"))
	}
}

// TestProseInTexts wants none of the idioms in documents, and none in what programs print.
func TestProseInTexts(t *testing.T) {
	passages := append(paragraphs(t), literals(t)...)
	countIdioms(passages, func(p passage, i idiom, words string) {
		t.Errorf("%s:%d: %q: better %s", p.file, p.line, words, i.better)
	})
	if len(passages) < 5000 {
		t.Errorf("%d paragraphs and texts found: has the reader missed some?", len(passages))
	}
}

// TestProseFindsIdioms shows the list bad English, and good English that looks like it.
func TestProseFindsIdioms(t *testing.T) {
	for text, want := range map[string]string{
		"Those that are bound stay.":                   "those that",
		"a pod of which nothing is known":              "of which",
		"left has a plan go on without it":             "has X go",
		"wake has the pods be tried":                   "has X be Y",
		"what the API says of a pod":                   "say of",
		"runsOn says on which CPUs it is":              "says on which",
		"The ones that are bound stay, three of which": "",
		"It has to be tried, and the pods have to go.": "",
		"another pod stands in its way":                "",
		"The Lease has said of late that it holds.":    "",
		"It has no more than two.":                     "",
	} {
		var got []string
		countIdioms([]passage{{text: text}}, func(_ passage, i idiom, _ string) { got = append(got, i.name) })
		if strings.Join(got, ", ") != want && !(want != "" && slices.Contains(got, want)) {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	if len(idioms) < 30 {
		t.Errorf("%d idioms: want at least 30", len(idioms))
	}
}

func countIdioms(passages []passage, tell func(p passage, i idiom, words string)) {
	for _, p := range passages {
		for _, i := range idioms {
			for _, words := range i.in(p.text) {
				tell(p, i, words)
			}
		}
	}
}

// comments returns the comments of all Go files that people write, and how many lines they have.
func comments(t *testing.T) (out []passage, lines int) {
	t.Helper()
	for _, file := range goFiles(t) {
		if isGenerated(t, file) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.FromSlash(file), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			out = append(out, passage{file, fset.Position(group.Pos()).Line, text})
			lines += len(group.List)
		}
	}
	return out, lines
}

// literals returns the strings with a blank in Go files that are no tests: what programs print.
func literals(t *testing.T) (out []passage) {
	t.Helper()
	for _, file := range goFiles(t) {
		if isGenerated(t, file) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.FromSlash(file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.Contains(l.Value, " ") {
				out = append(out, passage{file, fset.Position(l.Pos()).Line, strings.Trim(l.Value, "`\"")})
			}
			return true
		})
	}
	return out
}

// paragraphs returns those of README, of the guides beside it and of docs. CHANGELOG is left out:
// what a release said about itself stays as it was.
func paragraphs(t *testing.T) (out []passage) {
	t.Helper()
	reference, err := filepath.Glob("docs/reference/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(documents(t), reference...) {
		if file == "CHANGELOG.md" {
			continue
		}
		p := passage{file: file}
		for n, line := range append(linesOf(t, file), "") {
			if strings.TrimSpace(line) != "" {
				if p.text == "" {
					p.line = n + 1
				}
				p.text += strings.TrimSpace(line) + " "
				continue
			}
			if p.text != "" {
				out = append(out, p)
			}
			p.text = ""
		}
	}
	return out
}
