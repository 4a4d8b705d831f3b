package main

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// house has the figures of a module, without tests, testdata and generated files.
type house struct {
	lines   int                // of Go outside api/, test/, tools/ and lab/
	lengths []int              // of all functions with a name, in lines, ascending
	methods map[string]methods // by type, as "package.Type"
	structs map[string]fields
	rooms   map[string]arrows // by package
}

// methods counts the methods of a type: its own methods, and all methods that a caller can reach
// through it. Reachable methods include those of embedded types of the same package.
type methods struct{ own, reachable int }

// fields counts the fields of a struct. A struct of the same package that is embedded counts with
// all its fields; any other embedded type is one field.
type fields struct{ all, bools int }

// arrows counts the uses between the files of one package. A file has one arrow to each other file
// that declares something it uses. back is the number of arrows from a later file to an earlier
// one. It is counted in the best order of files that a local search finds.
type arrows struct{ all, back, files int }

func (a arrows) percent() int {
	if a.all == 0 {
		return 0
	}
	return (100*a.back + a.all/2) / a.all
}

// measure reads all packages below root.
func measure(root string) (*house, error) {
	h := &house{methods: map[string]methods{}, structs: map[string]fields{}, rooms: map[string]arrows{}}
	dirs, err := goDirs(root)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := h.addRoom(root, dir); err != nil {
			return nil, err
		}
	}
	if len(h.lengths) == 0 {
		return nil, errors.New("no Go function found in " + root)
	}
	slices.Sort(h.lengths)
	return h, nil
}

// goDirs lists the folders below root whose Go files belong to the module, relative to root, with
// slashes. As the go command does, it skips names that begin with a dot or an underscore.
func goDirs(root string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.ContainsAny(d.Name()[:1], "._") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if isSource(d.Name()) {
			rel, err := filepath.Rel(root, filepath.Dir(p))
			found[filepath.ToSlash(rel)] = true
			return err
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// addRoom measures one package.
func (h *house) addRoom(root, dir string) error {
	set := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isSource(name) {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if room, _, _ := strings.Cut(dir, "/"); room != "api" && room != "test" && room != "tools" && room != "lab" {
			h.lines += set.File(f.Pos()).LineCount()
		}
		if !ast.IsGenerated(f) {
			files = append(files, f)
		}
	}
	for _, f := range files {
		h.addFunctions(set, dir, f)
	}
	pkg, info := check(set, files)
	h.addTypes(dir, pkg)
	if a := arrowsBetween(set, files, pkg, info); a.files > 1 {
		h.rooms[dir] = a
	}
	return nil
}

// addFunctions counts the functions of one file, and methods as their types' own.
func (h *house) addFunctions(set *token.FileSet, dir string, f *ast.File) {
	for _, d := range f.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		h.lengths = append(h.lengths, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1)
		if t := receiver(d); t != "" {
			m := h.methods[dir+"."+t]
			m.own++
			h.methods[dir+"."+t] = m
		}
	}
}

// addTypes counts the fields of a package's structs, and the methods that are reached through its
// types.
func (h *house) addTypes(dir string, pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		t, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() || types.IsInterface(t.Type()) {
			continue
		}
		if n := types.NewMethodSet(types.NewPointer(t.Type())).Len(); n > 0 {
			m := h.methods[dir+"."+name]
			m.reachable = n
			h.methods[dir+"."+name] = m
		}
		if s, ok := t.Type().Underlying().(*types.Struct); ok {
			h.structs[dir+"."+name] = flattened(s, nil)
		}
	}
}

// flattened counts the fields of a struct and of its embedded structs. outer are the enclosing
// structs. They end the recursion if a struct embeds a pointer to itself.
func flattened(s *types.Struct, outer []*types.Struct) (n fields) {
	for f := range s.Fields() {
		t := f.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if inner, ok := t.Underlying().(*types.Struct); ok && f.Embedded() && !slices.Contains(append(outer, s), inner) {
			in := flattened(inner, append(outer, s))
			n.all, n.bools = n.all+in.all, n.bools+in.bools
			continue
		}
		n.all++
		if b, ok := f.Type().(*types.Basic); ok && b.Kind() == types.Bool {
			n.bools++
		}
	}
	return n
}

// receiver returns the name of a method's type, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// check type-checks the files without compiling the packages that they import. Names that the
// package itself declares still resolve.
func check(set *token.FileSet, files []*ast.File) (*types.Package, *types.Info) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check("room", set, files, info) // unresolved names of imports are no errors here
	return pkg, info
}

// arrowsBetween counts the arrows between the files of a package.
func arrowsBetween(set *token.FileSet, files []*ast.File, pkg *types.Package, info *types.Info) arrows {
	order := map[string]int{}
	for i, f := range files {
		order[set.Position(f.Pos()).Filename] = i
	}
	uses := make([]map[int]bool, len(files))
	for i := range uses {
		uses[i] = map[int]bool{}
	}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !declared(pkg, object) {
			continue
		}
		from, to := order[set.Position(id.Pos()).Filename], order[set.Position(object.Pos()).Filename]
		if from != to {
			uses[from][to] = true
		}
	}
	a := arrows{files: len(files), back: fewestBack(uses)}
	for _, to := range uses {
		a.all += len(to)
	}
	return a
}

// declared reports if an object is a package-level declaration or a method. Fields and local
// variables count as parts of their types and functions.
func declared(pkg *types.Package, o types.Object) bool {
	if f, ok := o.(*types.Func); ok {
		return f.Signature().Recv() != nil || o.Parent() == pkg.Scope()
	}
	return o.Parent() == pkg.Scope()
}

type nothing struct{}

func (nothing) Import(string) (*types.Package, error) {
	return nil, errors.New("imports are ignored")
}

// fewestBack searches for an order of nodes with as few arrows as possible from a later node to an
// earlier one, and returns the number of these arrows. The local search moves single nodes while
// that helps.
func fewestBack(uses []map[int]bool) int {
	order := byDegree(uses)
	for moved := true; moved; {
		moved = false
		for i := range order {
			if to := betterPlace(order, i, uses); to != i {
				node := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), to, node)
				moved = true
			}
		}
	}
	back := 0
	for i, node := range order {
		for _, before := range order[:i] {
			back += bit(uses[node][before])
		}
	}
	return back
}

// byDegree orders the nodes by outgoing minus incoming arrows, largest first.
func byDegree(uses []map[int]bool) []int {
	order, degree := make([]int, len(uses)), make([]int, len(uses))
	for i, to := range uses {
		order[i] = i
		degree[i] += len(to)
		for j := range to {
			degree[j]--
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(degree[b], degree[a]) })
	return order
}

// betterPlace returns the index to which the node at index i must move for the fewest arrows back.
func betterPlace(order []int, i int, uses []map[int]bool) int {
	node, best, place := order[i], 0, i
	change := 0
	for j := i - 1; j >= 0; j-- {
		change += bit(uses[order[j]][node]) - bit(uses[node][order[j]])
		if change < best {
			best, place = change, j
		}
	}
	change = 0
	for j := i + 1; j < len(order); j++ {
		change += bit(uses[node][order[j]]) - bit(uses[order[j]][node])
		if change < best {
			best, place = change, j
		}
	}
	return place
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
