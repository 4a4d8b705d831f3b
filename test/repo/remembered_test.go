package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsRememberedIsTested: every test that test/repo/README.md names beside something that is
// remembered is there, by that name.
func TestWhatIsRememberedIsTested(t *testing.T) {
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(rememberedTable(t), -1)
	if len(named) == 0 {
		t.Fatal("test/repo/README.md names no tests of what is remembered")
	}
	there := testsUnder(t, "internal")
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("test/repo/README.md names %s, which is not there", m[1])
		}
	}
}

// testsUnder returns the names of all tests in a directory.
func testsUnder(t *testing.T, root string) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			all[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// longLived are the programs that run for as long as a cluster does, and what they are made of.
const longLived = "internal/scheduler internal/ledger internal/gangs internal/nodestate internal/agent internal/enforce internal/offer internal/jobs internal/guarded internal/survey internal/web"

// TestDocsHaveEveryMap: each map that a program may keep, as a field of a struct or as a
// variable, has its place in test/repo/README.md, "What is remembered", or a reason in maps why it
// is not remembered. A new one is in neither.
func TestDocsHaveEveryMap(t *testing.T) {
	table := rememberedTable(t)
	said := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(maps), "\n") {
		name, why, ok := strings.Cut(line, " ")
		if said[name] != "" || !ok {
			t.Errorf("%s: stands there twice, or without a reason", name)
		}
		said[name] = strings.TrimSpace(why)
	}
	for name, at := range mapsIn(t) {
		row, inTable := strings.CutPrefix(said[name], "= ")
		switch {
		case said[name] == "":
			t.Errorf("%s: %s is a map that nobody has thought about: bound it, put it into the table of test/repo/README.md, \"What is remembered\", "+
				"and name it in maps of this test, with the word of the table or the reason why it is not remembered", at, name)
		case inTable && !strings.Contains(table, "`"+row+"`"):
			t.Errorf("%s: %s is said to be in the table of test/repo/README.md as `%s`, which is not there", at, name, row)
		}
		delete(said, name)
	}
	for name := range said {
		t.Errorf("%s is not there any more: take it out of maps", name)
	}
}

// rememberedTable is the section of test/repo/README.md.
func rememberedTable(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("test/repo/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## What is remembered\n")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("test/repo/README.md: no section \"What is remembered\"")
	}
	return section
}

// mapsIn returns where each map stands that the programs may keep, by package, type and field.
func mapsIn(t *testing.T) map[string]string {
	t.Helper()
	set, files := token.NewFileSet(), map[string]*ast.File{}
	named := map[string]bool{"sync.Map": true, "sets.Set": true, "sets.String": true} // by package and name
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || !slices.ContainsFunc(strings.Fields(longLived+" internal/wire placement"), func(p string) bool { return strings.HasPrefix(file, p+"/") }) {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[file] = f
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, isMap := spec.Type.(*ast.MapType); isMap {
					named[f.Name.Name+"."+spec.Name.Name] = true
				}
			}
			return true
		})
	}
	out := map[string]string{}
	for file, f := range files {
		pkg := path.Dir(file)
		if !slices.ContainsFunc(strings.Fields(longLived), func(p string) bool { return strings.HasPrefix(file, p+"/") }) {
			continue
		}
		note := func(owner string, field *ast.Field) {
			if hasMap(field.Type, f.Name.Name, named) {
				for _, name := range field.Names {
					out[strings.TrimPrefix(pkg, "internal/")+"."+owner+name.Name] = set.Position(name.Pos()).String()
				}
			}
		}
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					ast.Inspect(s.Type, func(n ast.Node) bool {
						if of, ok := n.(*ast.StructType); ok {
							for _, field := range of.Fields.List {
								note(s.Name.Name+".", field)
							}
						}
						return true
					})
				case *ast.ValueSpec:
					note("", &ast.Field{Names: s.Names, Type: typeOf(s)})
					if of, ok := s.Type.(*ast.StructType); ok {
						for _, field := range of.Fields.List {
							note(s.Names[0].Name+".", field)
						}
					}
				}
			}
		}
	}
	return out
}

// typeOf is the type of a variable that begins empty: one that lists its entries in the code is a
// table, and no memory.
func typeOf(s *ast.ValueSpec) ast.Expr {
	if s.Type != nil && len(s.Values) == 0 {
		return s.Type
	}
	if len(s.Values) != 1 {
		return nil
	}
	switch v := s.Values[0].(type) {
	case *ast.CompositeLit:
		if len(v.Elts) == 0 {
			return v.Type
		}
		if _, isMap := v.Type.(*ast.MapType); !isMap {
			return v.Type
		}
	case *ast.CallExpr:
		if f, ok := v.Fun.(*ast.Ident); ok && f.Name == "make" {
			return v.Args[0]
		}
	}
	return nil
}

// hasMap says whether a value of the type holds a map itself; what a named struct holds is said
// about its own fields.
func hasMap(e ast.Expr, pkg string, named map[string]bool) (found bool) {
	if e == nil {
		return false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncType, *ast.StructType, *ast.InterfaceType:
			return false
		case *ast.MapType:
			found = true
		case *ast.SelectorExpr:
			if p, ok := x.X.(*ast.Ident); ok && named[p.Name+"."+x.Sel.Name] {
				found = true
			}
			return false
		case *ast.Ident:
			found = found || named[pkg+"."+x.Name]
		}
		return !found
	})
	return found
}

// maps are all of them: "= WORD" gives the word by which the table has one, any other text why what
// it holds goes by itself.
const maps = `
agent.Cluster.fits one for each kind that the agent writes
agent.complaints.last = complaints
agent.concerns.steps files of the kubelet's configuration
agent.concerns.trees files of the kubelet's configuration
agent.deviceBook.known = devices
agent.deviceBook.unlisted = devices
agent.deviceBook.lost = devices
agent.deviceBook.preferences an option
agent.deviceBook.own an option
agent.deviceBook.address = devices
agent.enforcer.missing = enforcer.missing
agent.obeyed.offered a look at the containers
agent.obeyed.pods a look at the containers
agent.obeyed.sick a look at the containers
agent.absence.since is enforcer.missing
agent.occupancy.stranded sums of the last report, by resource
agent.occupancy.pods sums of the last report, by alignment
agent.occupancy.withDevices sums of the last report, by alignment
agent.Options.Preferences an option
agent.podBook.pods = podFacts
agent.podBook.left = podFacts
agent.sighting.holders a reading
agent.sighting.pods a reading
agent.sighting.active a reading
agent.history.firstSeen = history
agent.history.last = history
agent.history.over = history
agent.reporter.alive a reading
enforce.Container.Tokens of a container in the books
enforce.Container.Given of a container in the books
enforce.Books.all = enforce.Books
enforce.Books.claims = Books.claims
enforce.Books.offered devices of the machine
enforce.Books.found = enforce.Books
enforce.Plugin.paths = Plugin.paths
enforce.Plugin.held = Plugin.held
enforce.Sight.Cgroups a look at the containers
jobs.fairQueue.of = fairQueue
jobs.step.later a step of a Job
jobs.stepper.owed a step of a Job
jobs.stepper.seen a step of a Job
ledger.lives.pods = ledger.Node
ledger.numbers.byKey = ledger.numbers
ledger.Report.pods = ledger.Node
ledger.worlds.after = ledger.Node
nodestate.Demand.of = nodestate.Demand
nodestate.Demand.wishes = nodestate.Demand
nodestate.Kinds.bySpec = nodestate.Kinds
nodestate.Levels.known = nodestate.Levels
nodestate.Levels.models = nodestate.Levels
nodestate.Levels.wishes = nodestate.Demand
offer.Offers.findings = offer
offer.Offers.listeners = offer
scheduler.binding.words a Binding
scheduler.Args.CPUsPerDevice the configuration, at most 64
scheduler.profiles.maxNodes one for each profile of the configuration
scheduler.cores.byInformers one for each scheduler of the process
scheduler.dryRun.removed an attempt
scheduler.counts.nodes sums, made when metrics are read
scheduler.counts.flooded sums, made when metrics are read
scheduler.Delays.crowds = Delays.of
scheduler.Delays.of = Delays.of
scheduler.pods.of = pods.of
scheduler.groupWaits.since = groupWaits
scheduler.preferences.classes an attempt
scheduler.groupTrial.placed a cycle of a group
scheduler.groupPauses.by = groupPauses
scheduler.groupPause.held = groupPauses
scheduler/command.briefEvents.last = briefEvents.last
scheduler/command.search.named a search
scheduler/gang.APIObjects.clients one for each kind of group
scheduler/gang.APIObjects.watched one for each kind of group
scheduler/gang.APIObjects.apart one for each kind of group
scheduler/gang.book.groups = gang.Groups
scheduler/gang.book.of = gang.Groups
scheduler/gang.Groups.lone = gang.Groups
scheduler/gang.teller.vacant = Groups.vacant
scheduler/gang.book.admitted = book.admitted
scheduler/gang.book.spoiled = book.spoiled
scheduler/gang.look.classes a look
gangs.Room.single a count
gangs.Room.gangs a count
scheduler.annotating.since = annotating.since
scheduler.profiles.terms one for each profile
scheduler/gang.Groups.evicted = Groups.evicted
scheduler/gang.protected.of = gang.protected
scheduler/gang.aspects.Labels a trial
scheduler/gang.aspects.Selector a trial
gangs.Count.Tasks = gang.Groups
gangs.Runs.of = gang.Groups
gangs.Shares.until = gangs.Shares
scheduler/gang.eviction.nodes an eviction
scheduler/gang.group.kept = group.kept
scheduler/gang.group.members = gang.Groups
scheduler/gang.hope.waits a trial
scheduler/gang.kind.allowed a trial
scheduler/gang.kind.refused a trial
scheduler/gang.planned.by = gang.Groups
scheduler/gang.sums.declared = gang.Groups
scheduler/gang.sums.priorities = gang.Groups
scheduler/gang.sums.schedulers = gang.Groups
scheduler/gang.trial.cleared a trial
scheduler/gang.trial.loners a trial
scheduler/gang.trial.mates a trial
scheduler/gang.trial.over a trial
scheduler/handover.fences.awaited = handover.fences
scheduler/nodes.Answers.byKey = nodes.Answers
scheduler/nodes.Feed.posted = Feed.posted
scheduler/nodes.Table.byName = nodes.Table
scheduler/nodes.reflectorStore.aside = aside
scheduler/nodes.reflectorStore.limits = limits
scheduler/nodes.reflectorStore.versions = reflectorStore
scheduler/outcome.Writer.due = outcome.Writer
scheduler/outcome.Writer.held = outcome.Writer
scheduler/outcome.Writer.nominated = outcome.Writer
scheduler/reservation.Census.Held sums, made when metrics are read
scheduler/reservation.Census.Phases sums, made when metrics are read
scheduler/reservation.Held.Devices sums, made when metrics are read
scheduler/reservation.Reservations.all = reservation.all
scheduler/reservation.users.bookOf = bookOf
scheduler/reservation.users.of = users
scheduler/reservation.Reservations.vain = vain
scheduler/reservation.Reservations.wanting = wanting
scheduler/reservation.item.taking = taking
scheduler/wake.Waiters.byClass = wake.Waiters
scheduler/wake.Waiters.byShape = wake.Waiters
scheduler/wake.Waiters.classOf = wake.Waiters
scheduler/wake.Waiters.rounds = rounds
scheduler/wake.again.byShape = again
scheduler/wake.renewal.woken = again
scheduler/wake.replies.news a change
scheduler/wake.behind.byNode = behind
scheduler/wake.members.pods = wake.Waiters
scheduler/wake.replies.reached a change
scheduler/wake.replies.room a change
scheduler/wake.replies.woken a change
scheduler/wake.room.apart a change, or that of a renewal
scheduler/wake.ring.lanes = wake.Waiters
scheduler/wake.waiter.blamed = wake.Waiters
scheduler/wake.wakeRound.woken = rounds
survey.Container.Devices a container of an answer
survey.Gang.Tasks a gang of an answer
survey.Held.Devices sums of an answer
survey.Held.Memory sums of an answer
survey.Live.rows = survey.Live
survey.Live.still a snapshot, which never changes
survey.NodeFit.ByNUMA a node of an answer
survey.Room.Staying sums of an answer
survey.Standing.Labels of a pod in the informer
survey.Survey.bound = survey.Live
survey.Survey.held = survey.Live
survey.Survey.nodes = survey.Live
survey.classList.resources a reading
survey.changes.nodes names since the last look, which takes them
survey.changes.pods names since the last look, which takes them
survey.facts.beats a reading
survey.gangTrial.classes a question
survey.groupObjects.hidden a reading
survey.maker.allowed a question
survey.maker.questions a question
survey.node.held = survey.Live
survey.places.left a question
survey.question.classes a question
survey.question.demand a question
survey.question.noNode a question
survey.nodeFacts.held a look at a node
survey.watcher.silent nodes, made anew at each look
survey.contact.denied resources of a watcher, seven at most
survey.contact.lost resources of a watcher, seven at most
web.nodePage.Labels an answer
web.point.Free a point of the history
web.point.Total a point of the history
web.reviewed.sees = reviews
web.reviews.known = reviews
web.reviews.refused = reviews
web.reviews.strangers = reviews
web.reviews.viewers = reviews
web.rows.changed = web.rows
web.streams.open = streams
`
