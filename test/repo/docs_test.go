package repo

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// foreign are words in documents that come from other projects and do not occur in this code, by
// project.
var foreign = map[string]string{
	"--batch-scheduler":                         "KubeRay's operator",
	"ProvisioningRequest":                       "Cluster Autoscaler",
	"GangScheduling":                            "a feature gate of Kubernetes 1.36",
	"--grace-period":                            "kubectl",
	"--server-side":                             "kubectl",
	"--service-account-extend-token-expiration": "kube-apiserver",
	"--disable-scheduler":                       "k3s",
	"--system-config-from-file":                 "GKE's gcloud",
	"--user":                                    "client-go's flags",
	"--validate":                                "kubectl",
}

// TestDocsNameWhatExists compares the names in documents with the code: metrics, flags, fields of
// objects, and words such as reasons and conditions. A name that is removed from the code must also
// be removed from the documents.
func TestDocsNameWhatExists(t *testing.T) {
	source := sourceText(t)
	metrics := readAll(t, "docs/reference/metrics-*.md")
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*`).FindAllString(source, -1) {
		words[w] = true
	}
	used, named := map[string]bool{}, 0
	check := func(p passage, kind, name string, there bool) {
		named++
		if there {
			return
		}
		if foreign[name] == "" {
			t.Errorf("%s: the %s %s does not exist in the code", p.file, kind, name)
		}
		used[name] = true
	}
	for _, p := range paragraphs(t) {
		for _, name := range metricNames.FindAllString(p.text, -1) {
			check(p, "metric", name, strings.Contains(metrics, "`"+bare(name)+"`"))
		}
		for _, m := range quoted.FindAllStringSubmatch(p.text, -1) {
			for _, flag := range flagNames.FindAllStringSubmatch(m[1], -1) {
				check(p, "flag", flag[0], strings.Contains(source, `"`+flag[1]+`"`) || strings.Contains(source, flag[0]))
			}
			if fieldPath.MatchString(m[1]) {
				for _, part := range strings.Split(m[1], ".") {
					check(p, "field", m[1], words[part])
				}
			}
			if reason.MatchString(m[1]) {
				check(p, "word", m[1], words[m[1]])
			}
		}
	}
	for name := range foreign {
		if !used[name] {
			t.Errorf("foreign has %s, which no document names or which the code has", name)
		}
	}
	if named < 500 {
		t.Errorf("%d names found in the documents: has their form changed?", named)
	}
}

var (
	quoted      = regexp.MustCompile("`([^`]+)`")
	metricNames = regexp.MustCompile(`berth_(scheduler|agent|controller)_[a-z0-9_]*[a-z0-9]`)
	flagNames   = regexp.MustCompile(`--([a-z][a-z0-9-]*[a-z0-9])`)
	fieldPath   = regexp.MustCompile(`^(spec|status|metadata)(\.[a-z][A-Za-z]+)+$`)
	reason      = regexp.MustCompile(`^([A-Z][a-z]+){2,}$`)
)

// bare returns the metric's name without Prometheus' suffix for the series of a histogram.
func bare(metric string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		metric = strings.TrimSuffix(metric, suffix)
	}
	return metric
}

func readAll(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.FromSlash(pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// sourceText returns the text of everything that documents describe: Go code, deployed files, and
// make's files.
func sourceText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || name == "docs" || name == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		kind := filepath.Ext(name)
		if d.IsDir() || d.Name() == "docs_test.go" || kind != ".go" && kind != ".yaml" && kind != ".mk" && kind != ".tpl" && kind != ".sh" && d.Name() != "Makefile" {
			return nil
		}
		text, err := os.ReadFile(name)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// passage is a paragraph of a document.
type passage struct{ file, text string }

// paragraphs returns the paragraphs of README, of the guides next to it and of docs. It omits
// CHANGELOG, which may name things that were removed later.
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
		for _, line := range append(linesOf(t, file), "") {
			if strings.TrimSpace(line) != "" {
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
