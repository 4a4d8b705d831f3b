package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	kubernetes = "k8s.io/kubernetes"
	// copies is the folder under the root of this repository in which the overlay puts the tests.
	copies = "test/suites/kubernetes"
	module = "github.com/berth-dev/berth"
	made   = module + "/test/suites/under"
	pkg    = `"k8s.io/kubernetes/pkg/scheduler"`
)

// makes matches the functions that package under replaces.
var makes = regexp.MustCompile(`\bscheduler\.(New|WithProfiles|WithFrameworkOutOfTreeRegistry)\(`)

// copyTests writes the tests of Kubernetes and an overlay for go build into tmp. dir has the source
// of Kubernetes, root is the root of this repository. It returns the packages with tests.
func copyTests(dir, root, tmp string) (packages []string, overlay string, err error) {
	replace, has := map[string]string{}, map[string]bool{}
	for _, folder := range []string{"scheduler", "util"} {
		from := filepath.Join(dir, "test", "integration", folder)
		err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(filepath.Join(dir, "test", "integration"), path)
			if err != nil {
				return err
			}
			to := filepath.Join(tmp, "kubernetes", name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if strings.HasSuffix(name, "_test.go") && !has[filepath.Dir(name)] {
				has[filepath.Dir(name)] = true
				packages = append(packages, filepath.ToSlash(filepath.Dir(name)))
			}
			replace[filepath.Join(root, copies, name)] = to
			return os.WriteFile(to, []byte(rewritten(string(text))), 0o644)
		})
		if err != nil {
			return nil, "", err
		}
	}
	overlay = filepath.Join(tmp, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	return packages, overlay, os.WriteFile(overlay, data, 0o644)
}

// rewritten returns the text of a file, changed to create its scheduler with package under.
func rewritten(text string) string {
	for _, folder := range []string{"scheduler", "util"} {
		text = strings.ReplaceAll(text, `"`+kubernetes+"/test/integration/"+folder, `"`+module+"/"+copies+"/"+folder)
	}
	if !strings.Contains(text, "\t"+pkg) || !makes.MatchString(text) {
		return text
	}
	text = makes.ReplaceAllString(text, "under.$1(")
	text = strings.Replace(text, "\t"+pkg, fmt.Sprintf("\t%q\n\t%s", made, pkg), 1)
	return text + "\nvar _ scheduler.Option // the import may be in use no more\n"
}

// copyModule writes a go.mod for the tests. The tests need more modules than the file from has;
// their versions are those of Kubernetes. dir has the source of Kubernetes.
func copyModule(dir, from, tmp string) (modfile string, err error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	theirs, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	var more strings.Builder
	for _, line := range strings.Split(string(theirs), "\n") {
		fields := strings.Fields(line)
		for _, needed := range []string{"github.com/onsi/gomega", "github.com/stretchr/testify", "go.uber.org/goleak"} {
			if len(fields) >= 2 && fields[0] == needed && !strings.Contains(string(text), "\t"+needed+" ") {
				fmt.Fprintf(&more, "\nrequire %s %s\n", needed, fields[1])
			}
		}
	}
	modfile = filepath.Join(tmp, "go.mod")
	if err := os.WriteFile(modfile, append(text, more.String()...), 0o644); err != nil {
		return "", err
	}
	sums, err := os.ReadFile(strings.TrimSuffix(from, ".mod") + ".sum")
	if err != nil {
		return "", err
	}
	return modfile, os.WriteFile(filepath.Join(tmp, "go.sum"), sums, 0o644)
}
