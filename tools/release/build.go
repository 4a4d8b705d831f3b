package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release is what to make.
type release struct {
	source, out, version, commit, ldflags string
	// url is where the folders of releases are fetched from.
	url       string
	time      time.Time
	platforms platforms
	progress  io.Writer
}

// platform is what a binary runs on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// known are the platforms of a release, in the order of its files.
var known = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// platforms is a flag: a part of known; none is all.
type platforms []platform

func (p *platforms) String() string { return fmt.Sprint([]platform(*p)) }

// Set implements flag.Value.
func (p *platforms) Set(text string) error {
	*p = nil
	for word := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(known, func(k platform) bool { return k.String() == word })
		if i < 0 || slices.Contains(*p, known[i]) {
			return fmt.Errorf("%q: want some of %v, each once", word, known)
		}
		*p = append(*p, known[i])
	}
	return nil
}

// commandsOf lists the commands of a platform: nodes and control planes are Linux.
func commandsOf(p platform) []string {
	if p.os == "linux" {
		return []string{"berth", "berth-agent", "berth-controller", "berth-scheduler"}
	}
	return []string{"berth"}
}

// binary is a command that was built.
type binary struct {
	command  string
	platform platform
	path     string
}

// versionForm is what Go, Helm and image tags all take.
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
	return nil
}

// setTime takes SOURCE_DATE_EPOCH where the caller said nothing
// (reproducible-builds.org/specs/source-date-epoch).
func (r *release) setTime(epoch int64) {
	if epoch == 0 {
		_, _ = fmt.Sscan(os.Getenv("SOURCE_DATE_EPOCH"), &epoch)
	}
	r.time = time.Unix(epoch, 0).UTC()
}

// build makes everything, below a folder that is put in its place once it is whole.
func (r *release) build(ctx context.Context) error {
	final := filepath.Clean(r.out)
	r.out = final + ".new"
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "berth-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.fill(ctx, work); err != nil {
		return errors.Join(err, os.RemoveAll(r.out))
	}
	return errors.Join(os.RemoveAll(final), os.Rename(r.out, final))
}

func (r *release) fill(ctx context.Context, work string) error {
	binaries, err := r.binaries(ctx, work)
	if err != nil {
		return err
	}
	for _, step := range []func([]binary) error{r.archives, r.images, r.inventory} {
		if err := step(binaries); err != nil {
			return err
		}
	}
	if err := errors.Join(r.krew(), r.chart(ctx, work)); err != nil {
		return err
	}
	if err := r.provenance(); err != nil {
		return err
	}
	return writeSums(r.out)
}

func (r *release) binaries(ctx context.Context, work string) (all []binary, err error) {
	for _, p := range r.platforms {
		for _, c := range commandsOf(p) {
			b := binary{c, p, filepath.Join(work, p.os+"-"+p.arch, c)}
			fmt.Fprintf(r.progress, "   %s for %s\n", c, p)
			if err := r.compile(ctx, b); err != nil {
				return nil, err
			}
			all = append(all, b)
		}
	}
	return all, nil
}

// compile builds without C, so that the binary is static, and without paths and repository state, so
// that it does not depend on where it was built.
func (r *release) compile(ctx context.Context, b binary) error {
	return r.run(ctx, []string{"CGO_ENABLED=0", "GOOS=" + b.platform.os, "GOARCH=" + b.platform.arch, "GOFLAGS="},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", b.path, "./cmd/"+b.command)
}

// run runs a program in the sources.
func (r *release) run(ctx context.Context, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = r.source, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// chart packages the chart under the release's version. Helm stamps files with the time of the day,
// so its archive is written again.
func (r *release) chart(ctx context.Context, work string) error {
	fmt.Fprintln(r.progress, "   the chart")
	err := r.run(ctx, nil, "go", "tool", "-modfile=tools/helm/go.mod", "helm", "package", "deploy/chart/berth",
		"--version", strings.TrimPrefix(r.version, "v"), "--app-version", r.version, "-d", work)
	if err != nil {
		return err
	}
	name := "berth-" + strings.TrimPrefix(r.version, "v") + ".tgz"
	return r.restamp(filepath.Join(work, name), filepath.Join(r.out, name))
}
