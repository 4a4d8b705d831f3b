package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// makeRoot returns a root directory with Debian and these packages. It makes one root for each list
// of packages.
func makeRoot(ctx context.Context, o *options, packages []string, stderr io.Writer) (string, error) {
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(packages, " "))))
	root := filepath.Join(o.Cache, o.Suite+"-"+name[:8])
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	mirror, err := mirrorFor(ctx, o)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(stderr, "fresh: making a root of Debian %s with %s\n", o.Suite, strings.Join(packages, " "))
	unfinished := root + ".new"
	if err := bootstrap(ctx, o, unfinished, mirror); err != nil {
		return "", err
	}
	if err := install(ctx, unfinished, packages); err != nil {
		return "", err
	}
	return root, os.Rename(unfinished, root)
}

// bootstrap makes the smallest possible root.
func bootstrap(ctx context.Context, o *options, root, mirror string) error {
	if err := os.MkdirAll(o.Cache, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	argv, env, err := debootstrap(ctx, o.Cache)
	if err != nil {
		return err
	}
	return command(ctx, env, append(argv, "--variant=minbase", "--keyring="+keyring, o.Suite, root, mirror)...)
}

// install carries out README's line in the root.
func install(ctx context.Context, root string, packages []string) error {
	resolver, err := os.ReadFile("/etc/resolv.conf")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "etc/resolv.conf"), resolver, 0o644)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	inRoot := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	for _, argv := range [][]string{
		{"apt-get", "update", "-q"},
		append([]string{"apt-get", "install", "-y", "-q"}, packages...),
		{"apt-get", "clean"},
	} {
		if err := command(ctx, inRoot, append([]string{"chroot", root}, argv...)...); err != nil {
			return err
		}
	}
	return nil
}

// mirrorFor returns the named mirror, or apt's own.
func mirrorFor(ctx context.Context, o *options) (string, error) {
	if o.Mirror != "" {
		return o.Mirror, nil
	}
	return mirrorOf(ctx, o.Suite)
}

// mirrorOf returns the mirror from which apt takes Debian's packages here.
func mirrorOf(ctx context.Context, suite string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(COMPONENT) $(CODENAME)").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "Debian" && f[2] == "main" && f[3] == suite {
			return f[0], nil
		}
	}
	return "", fmt.Errorf("apt has no mirror of Debian %s: run apt-get update, or set -mirror", suite)
}

// debootstrap returns this machine's command. If it has none, debootstrap unpacks the package into
// the cache, and installs nothing.
func debootstrap(ctx context.Context, cache string) (argv, env []string, err error) {
	if path, err := exec.LookPath("debootstrap"); err == nil {
		return []string{path}, nil, nil
	}
	dir := filepath.Join(cache, "debootstrap")
	if err := os.RemoveAll(dir); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	download := exec.CommandContext(ctx, "apt-get", "download", "-q", "debootstrap")
	download.Dir = dir
	if out, err := download.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("apt-get download debootstrap: %w: %s", err, out)
	}
	packages, err := filepath.Glob(filepath.Join(dir, "debootstrap_*.deb"))
	if err != nil || len(packages) != 1 {
		return nil, nil, fmt.Errorf("apt-get download debootstrap left %d files", len(packages))
	}
	if err := command(ctx, nil, "dpkg-deb", "-x", packages[0], dir); err != nil {
		return nil, nil, err
	}
	return []string{"/bin/sh", filepath.Join(dir, "usr/sbin/debootstrap")}, []string{"DEBOOTSTRAP_DIR=" + filepath.Join(dir, "usr/share/debootstrap")}, nil
}

// command runs a program of this machine to its end. The error shows the end of its output.
func command(ctx context.Context, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out[max(0, len(out)-2000):])
	}
	return nil
}
