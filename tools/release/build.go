package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build makes everything in a new folder, and renames the folder when it is complete.
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
			for _, k := range r.kubesFor(c) {
				b := binary{command: c, platform: p, kube: k}
				b.path = filepath.Join(work, p.os+"-"+p.arch, b.name())
				fmt.Fprintf(r.progress, "   %s for %s\n", b.name(), p)
				if err := r.compile(ctx, b); err != nil {
					return nil, err
				}
				all = append(all, b)
			}
		}
	}
	return all, nil
}

// compile builds without C, so that the binary is static, and without paths and repository state,
// so that the binary does not depend on the build's folder.
func (r *release) compile(ctx context.Context, b binary) error {
	argv := append([]string{"go", "build", "-trimpath", "-buildvcs=false"}, b.kube.flags()...)
	ldflags := r.ldflags + " -X k8s.io/component-base/version.gitVersion=" + b.kube.version
	return r.run(ctx, buildEnv(b.platform), append(argv, "-ldflags", ldflags, "-o", b.path, "./cmd/"+b.command)...)
}

// buildEnv returns the complete environment of the compiler, without the builder's own settings and
// go.env.
func buildEnv(p platform) []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOFLAGS=", "GOENV=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off"}
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

// chart packages the chart under the release's version. Helm stamps files with the current time, so
// restamp writes the archive again.
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
