package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release describes a release to make.
type release struct {
	source, out, version, commit, ldflags string
	// url is the parent URL of the releases' folders.
	url  string
	time time.Time
	// kubes are the releases of Kubernetes from which a scheduler is built.
	kubes     []kube
	platforms platforms
	progress  io.Writer
}

// platform is the operating system and architecture of a binary.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// known are the platforms of a release, in the order of its files.
var known = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// platforms is the flag for a selection of known; empty means all.
type platforms []platform

func (p *platforms) String() string { return fmt.Sprint([]platform(*p)) }

// Set implements flag.Value.
func (p *platforms) Set(text string) error {
	*p = nil
	for word := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(known, func(k platform) bool { return k.String() == word })
		if i < 0 || slices.Contains(*p, known[i]) {
			return fmt.Errorf("%q: want some of %s, each once", word, strings.Trim(fmt.Sprint(known), "[]"))
		}
		*p = append(*p, known[i])
	}
	return nil
}

// commandsOf lists the commands of a platform. Programs for nodes and control planes are for Linux
// only.
func commandsOf(p platform) []string {
	if p.os == "linux" {
		return []string{"berth", "berth-agent", "berth-controller", "berth-scheduler"}
	}
	return []string{"berth"}
}

// scheduler is the command that is built once for each of kubes, because no scheduler may be newer
// than its API server (Kubernetes' version skew policy).
const scheduler = "berth-scheduler"

// binary is a command that was built.
type binary struct {
	command  string
	platform platform
	path     string
	kube     kube
}

// suffix distinguishes the builds of the scheduler.
func (b binary) suffix() string {
	if b.command != scheduler {
		return ""
	}
	return "-k8s" + b.kube.minor
}

// name is the name of the binary's file.
func (b binary) name() string { return b.command + b.suffix() }

// versionForm is the form that Go, Helm and image tags all accept.
var versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

func (r *release) check() error {
	if !versionForm.MatchString(r.version) {
		return fmt.Errorf("-version: %q: want a version like v0.1.0 or v0.1.1-dev.3", r.version)
	}
	if r.out == "" {
		return errors.New("-out: want the folder to write to")
	}
	if _, err := os.Stat(filepath.Join(r.source, "cmd", "berth-scheduler")); err != nil {
		return fmt.Errorf("-source: %w: want the root of Berth's sources", err)
	}
	if err := checkURL(r.url); err != nil {
		return err
	}
	if len(r.platforms) == 0 {
		r.platforms = known
	}
	var err error
	r.kubes, err = kubesOf(r.source)
	return err
}

// setTime uses SOURCE_DATE_EPOCH if the caller gave no time
// (reproducible-builds.org/specs/source-date-epoch).
func (r *release) setTime(epoch int64) {
	if epoch == 0 {
		_, _ = fmt.Sscan(os.Getenv("SOURCE_DATE_EPOCH"), &epoch)
	}
	r.time = time.Unix(epoch, 0).UTC()
}

// placeholderURL is the URL of releases in krew's manifest if the caller gives none. The host does
// not exist (RFC 6761).
const placeholderURL = "https://releases.example/berth"

// checkURL returns an error unless the text is the URL of a folder.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("-url: %q: want the URL of the releases' parent folder, like %s", text, placeholderURL)
	}
	return nil
}

// create writes a file of the release.
func (r *release) create(name string, write func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
