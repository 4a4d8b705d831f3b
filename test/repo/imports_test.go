package repo

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-dev/berth"

// lattice lists which packages of this module a package may import. Data flows from the hardware
// and the API up to the commands, and imports only go down. "x/..." stands for x and everything
// below it. A package that is not listed may not exist. Test files are exempt.
const lattice = `
topology                  :
topology/shapes           : topology
placement/hint            : topology
placement/release         :
placement/cpu             : topology placement/hint placement/release
placement/memory          : topology placement/hint
placement/device          : topology placement/hint
placement/joint           : topology placement/hint
placement                 : topology placement/hint placement/release placement/cpu placement/memory placement/device placement/joint
sysfs                     : topology

api/lenient               :
api/berth/v1alpha1        :
api/batch/v1alpha1        : api/lenient
api/nodeinfo/v1alpha1     : api/lenient
api/nrt/v1alpha2          : api/lenient
api/scheduling/koordinator/v1alpha1 : api/lenient
api/scheduling/sigs/v1alpha1    : api/lenient
api/scheduling/volcano/v1beta1  : api/lenient
deploy                    :

internal/atomicfile       :
internal/bounded          :
internal/capture          :
internal/clip             :
internal/claims           : internal/amounts internal/clip topology placement
internal/brief            : internal/bounded internal/clip
internal/lscpu            : internal/pasted topology
internal/machineview      : topology placement
internal/kubeletstate     : internal/clip topology placement
internal/version          :
internal/ledger           : topology placement
internal/simulate/trace   :
internal/simulate         : topology placement internal/amounts internal/defrag internal/demand internal/gangfit internal/ledger internal/plan internal/rank internal/simulate/trace internal/suggest internal/suppose
internal/demand           :
internal/shadow           : topology placement internal/ledger
internal/rank             : topology placement internal/demand internal/ledger
internal/plan             : topology placement internal/ledger internal/suppose
internal/suppose          : placement internal/amounts internal/ledger
internal/defrag           : placement internal/amounts internal/suppose
internal/moving           : internal/wire
internal/wire             : internal/claims internal/clip topology placement placement/joint api/... internal/amounts internal/kubeletstate
internal/gangfit          : internal/amounts internal/plan internal/suppose
internal/gangs            : internal/gangfit internal/ledger internal/plan internal/suppose internal/wire
internal/parallel         :
internal/suggest          :
internal/turns            :
internal/pasted           :
internal/stranded         : topology placement
internal/convert          : internal/suggest
internal/amounts          : internal/suggest topology placement placement/memory
internal/featuregates     : internal/suggest
internal/strict           : internal/suggest internal/wire
internal/kubeletconfig    : internal/featuregates internal/pasted internal/suggest internal/strict internal/wire placement
internal/nodestate        : topology placement api/... internal/amounts internal/demand internal/ledger internal/wire
internal/survey           : topology placement api/... internal/amounts internal/gangs internal/ledger internal/machineview internal/nodestate internal/parallel internal/stranded internal/survey/source internal/wire
internal/survey/query     : topology placement api/... internal/amounts internal/claims internal/defrag internal/demand internal/gangfit internal/gangs internal/ledger internal/machineview internal/manifest internal/moving internal/nodestate internal/parallel internal/plan internal/rank internal/stranded internal/suggest internal/suppose internal/survey internal/survey/source internal/wire
internal/survey/source    : topology api/... internal/apiclient internal/nodestate internal/parallel internal/wire
internal/web              : internal/bounded internal/clip internal/shadow topology internal/machineview internal/manifest internal/survey/... internal/version internal/wire
internal/manifest         : api/... internal/amounts internal/pasted internal/strict internal/suggest internal/wire
internal/whatif           : topology placement sysfs internal/lscpu internal/pasted internal/machineview internal/amounts internal/capture internal/featuregates internal/kubeletconfig internal/kubeletstate internal/suggest internal/suppose internal/survey internal/survey/query internal/wire

internal/scheduler/wake   : placement internal/ledger internal/turns
internal/scheduler/later  :
internal/scheduler/handover: internal/scheduler/later internal/turns
internal/scheduler/lead   :
internal/scheduler/steer  : topology placement internal/bounded internal/claims
internal/scheduler/outcome: internal/scheduler/later internal/turns
internal/scheduler/gang   : internal/apiclient internal/amounts internal/suppose internal/gangfit internal/gangs placement internal/ledger internal/plan internal/wire internal/scheduler/later internal/scheduler/lead api/scheduling/...
internal/scheduler/reservation : placement internal/apiclient internal/ledger internal/wire internal/scheduler/later internal/scheduler/lead api/scheduling/koordinator/v1alpha1
internal/scheduler/nodes  : topology placement internal/clip internal/apiclient internal/demand internal/ledger internal/rank internal/wire internal/scheduler/wake internal/scheduler/later api/... internal/nodestate
internal/scheduler/refit  : placement internal/clip internal/ledger internal/turns internal/wire internal/scheduler/handover internal/scheduler/later internal/scheduler/nodes
internal/scheduler        : internal/scheduler/refit topology internal/claims internal/scheduler/steer internal/apiclient internal/bounded internal/brief internal/gangfit internal/gangs internal/suppose placement internal/amounts internal/ledger internal/rank internal/wire internal/version internal/scheduler/wake internal/scheduler/nodes internal/scheduler/later internal/scheduler/handover internal/scheduler/gang internal/scheduler/lead internal/scheduler/outcome internal/scheduler/reservation api/... internal/nodestate
internal/scheduler/witness: topology placement api/... internal/apiclient internal/claims internal/ledger internal/nodestate internal/rank internal/scheduler/later internal/scheduler/nodes internal/scheduler/wake internal/shadow internal/survey/source internal/version internal/wire
internal/scheduler/command: internal/brief internal/clip internal/scheduler internal/scheduler/outcome internal/scheduler/reservation internal/scheduler/gang internal/version
internal/offer            : internal/atomicfile internal/clip topology internal/strict internal/suggest internal/wire
scheduler                 : placement internal/scheduler internal/scheduler/command
examples                  :
examples/licences         : placement placement/hint
examples/licences/berth-scheduler: examples/licences scheduler
internal/enforce          : topology placement placement/joint internal/wire
internal/agent            : internal/apiclient internal/atomicfile internal/clip internal/stranded topology placement sysfs internal/wire internal/enforce internal/offer internal/kubeletconfig internal/kubeletstate api/...
internal/cli/table        :
internal/cli              : internal/shadow internal/amounts internal/atomicfile internal/gangs topology/... internal/convert internal/defrag internal/moving placement sysfs api/... internal/capture internal/cli/table internal/kubeletconfig internal/lscpu internal/machineview internal/manifest internal/strict internal/suggest internal/whatif internal/kubeletstate internal/ledger internal/nodestate internal/pasted internal/survey/... internal/simulate/... internal/web internal/wire internal/version
internal/guarded          :
internal/jobs             : internal/brief internal/clip internal/turns internal/version api/batch/... api/scheduling/volcano/... internal/guarded
internal/child            :
internal/apiclient        : api/...
internal/controlplane     : deploy internal/child
internal/controlplane/controllers :
internal/sampleplugin     : topology
internal/hollow           : topology/... internal/child internal/sampleplugin internal/version placement sysfs internal/kubeletstate internal/wire
internal/demo/places      : topology placement internal/sampleplugin internal/wire
internal/demo             : ...

cmd/...                   : ...
test/golden               :
test/protocol             : test/protocol/explore
test/protocol/explore     :
test/protocol/claims      : test/protocol/explore
test/protocol/gangs       : test/protocol/explore
test/protocol/grow        : test/protocol/explore
test/protocol/obey        : test/protocol/explore
test/reference            :
test/sysfstest            : topology
test/...                  : ...
`

// pure packages know neither Kubernetes nor logging nor metrics: they can be embedded anywhere.
const pure = "topology placement sysfs internal/shadow internal/amounts internal/bounded internal/demand internal/stranded internal/suggest internal/ledger internal/rank internal/turns internal/plan internal/suppose internal/gangfit internal/defrag internal/simulate internal/capture internal/lscpu internal/pasted internal/child test/protocol test/sim"

// strangers never import each other. They communicate only through the API server.
const strangers = "internal/scheduler internal/agent internal/jobs internal/web"

// replayed names the package under test/ that a command imports: berth replay does the same as go
// run ./test/replay.
func replayed(pkg string) string {
	if pkg == "cmd/berth" {
		return "test/replay/play"
	}
	return ""
}

func TestImportsOnlyDescend(t *testing.T) {
	rules := parseLattice(t)
	for _, file := range goFiles(t) {
		pkg := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || pkg == "." {
			continue
		}
		allowed, ok := rules.of(pkg)
		if !ok {
			t.Errorf("%s: package %s is not in the lattice of imports_test.go: say there what it may import", file, pkg)
			continue
		}
		for _, imp := range importsOf(t, file) {
			own, isOwn := strings.CutPrefix(imp, module+"/")
			if isOwn && own != pkg && !slices.ContainsFunc(allowed, func(p string) bool { return matches(p, own) }) {
				t.Errorf("%s: %s may not import %s", file, pkg, own)
			}
			if isOwn && strings.HasPrefix(own, "test/") && !strings.HasPrefix(pkg, "test/") && own != replayed(pkg) {
				t.Errorf("%s: %s imports %s: test/ has what only tests use", file, pkg, own)
			}
			if reason := impure(pkg, imp); reason != "" {
				t.Errorf("%s: %s imports %s: %s", file, pkg, imp, reason)
			}
		}
	}
}

func TestStrangersStayStrangers(t *testing.T) {
	all := strings.Fields(strangers)
	for _, file := range goFiles(t) {
		pkg := path.Dir(file)
		if !slices.Contains(all, pkg) {
			continue
		}
		for _, imp := range importsOf(t, file) {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok && own != pkg && slices.Contains(all, own) {
				t.Errorf("%s imports %s: scheduler, agent, jobs and web meet in the API server only", file, own)
			}
		}
	}
}

// reportReaders are the packages that know how a NodeTopology is stored. All others use a
// nodestate.Reading.
const reportReaders = "api internal/wire internal/nodestate internal/survey internal/agent test cmd"

func TestReportsAreReadInOnePlace(t *testing.T) {
	object := regexp.MustCompile(`\bv1alpha1\.NodeTopology\b`)
	readers := strings.Fields(reportReaders)
	seen := 0
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		if !object.Match(text) {
			continue
		}
		seen++
		if !slices.ContainsFunc(readers, func(p string) bool { return strings.HasPrefix(file, p+"/") }) {
			t.Errorf("%s takes a NodeTopology: want a nodestate.Reading", file)
		}
	}
	if seen < 5 {
		t.Errorf("only %d files take a NodeTopology: the test looks for another name", seen)
	}
}

// impure explains why a pure package must not import imp; "" if it may.
func impure(pkg, imp string) string {
	if !slices.ContainsFunc(strings.Fields(pure), func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }) {
		return ""
	}
	first, _, _ := strings.Cut(imp, "/")
	switch {
	case strings.HasPrefix(imp, module+"/"):
		return ""
	case pkg == "internal/capture" && strings.HasPrefix(imp, "github.com/ulikunitz/xz"):
		return ""
	case strings.Contains(first, "."):
		return "this package uses the standard library only"
	case imp == "log" || strings.HasPrefix(imp, "log/"):
		return "this package reports by its results, not by a log"
	}
	return ""
}

// TestDependenciesAreExplained compares docs/maintain.md with go.mod: the page has a reason for
// every direct dependency.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/maintain.md")
	if err != nil {
		t.Fatal(err)
	}
	block, _, _ := strings.Cut(string(mod), "\n)")
	checked := 0
	for line := range strings.Lines(block) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), " v")
		if !ok || strings.HasSuffix(strings.TrimSpace(line), "// indirect") {
			continue
		}
		checked++
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/maintain.md does not say why %s was chosen", name)
		}
	}
	if checked < 10 {
		t.Errorf("only %d direct dependencies found in go.mod", checked)
	}
}

type rule struct {
	pattern string
	allowed []string
}

type ruleSet []rule

func (rs ruleSet) of(pkg string) ([]string, bool) {
	for _, r := range rs {
		if matches(r.pattern, pkg) {
			return r.allowed, true
		}
	}
	return nil, false
}

func matches(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	return pattern == pkg
}

func parseLattice(t *testing.T) ruleSet {
	t.Helper()
	var rs ruleSet
	for line := range strings.Lines(lattice) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		pattern, allowed, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("lattice line %q has no colon", line)
		}
		rs = append(rs, rule{strings.TrimSpace(pattern), strings.Fields(allowed)})
	}
	return rs
}

func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin" || nestedModule(p)) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") {
			files = append(files, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d Go files: run the test in the root of the module", len(files))
	}
	return files
}

func nestedModule(dir string) bool {
	mods, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(mods) > 0
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}
