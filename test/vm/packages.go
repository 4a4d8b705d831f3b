package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func (b *builder) hostPackages(ctx context.Context) error {
	need := map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs", "pkg-config": "pkg-config"}
	var missing []string
	for prog, pkg := range need {
		if _, err := exec.LookPath(prog); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	b.say("installing %s", strings.Join(missing, " "))
	if err := b.run(ctx, "", nil, "apt-get", "update", "-q"); err != nil {
		return err
	}
	args := append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)
	return b.run(ctx, "", []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", args...)
}

// guestPackages downloads and unpacks the guest's Debian packages; it installs nothing on the host.
func (b *builder) guestPackages(ctx context.Context) error {
	files := []string{b.deb("kernel"), b.busybox(), b.deb("libseccomp-dev"), b.deb("libseccomp2")}
	return b.stamped("guest packages", "1", files, func() error {
		kernel, err := b.kernelPackage(ctx)
		if err != nil {
			return err
		}
		for name, pkg := range map[string]string{"kernel": kernel, "busybox": "busybox-static", "libseccomp-dev": "libseccomp-dev", "libseccomp2": "libseccomp2"} {
			if err := b.unpack(ctx, name, pkg); err != nil {
				return err
			}
		}
		return nil
	})
}

// toolFiles are standard tools that describe machines, with the parts of glibc to which they are
// linked. The loader searches libraries in /lib/x86_64-linux-gnu.
var toolFiles = []struct{ pkg, from, to string }{
	{"util-linux", "usr/bin/lscpu", "usr/bin/lscpu"},
	{"numactl", "usr/bin/numactl", "usr/bin/numactl"},
	{"libnuma1", "usr/lib/x86_64-linux-gnu/libnuma.so.1", "lib/x86_64-linux-gnu/libnuma.so.1"},
	{"libsmartcols1", "usr/lib/x86_64-linux-gnu/libsmartcols.so.1", "lib/x86_64-linux-gnu/libsmartcols.so.1"},
	{"libc6", "lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libc.so.6"},
	{"libc6", "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"},
}

// guestTools downloads the tools; it installs nothing on the host.
func (b *builder) guestTools(ctx context.Context) error {
	var files []string
	pkgs := map[string]bool{}
	for _, f := range toolFiles {
		files = append(files, filepath.Join(b.deb(f.pkg), f.from))
		pkgs[f.pkg] = true
	}
	return b.stamped("guest tools", "1", files, func() error {
		for pkg := range pkgs {
			if err := b.unpack(ctx, pkg, pkg); err != nil {
				return err
			}
		}
		return nil
	})
}

// kernelPackage returns the real package behind linux-image-cloud-amd64.
func (b *builder) kernelPackage(ctx context.Context) (string, error) {
	show := func() string {
		out, _ := exec.CommandContext(ctx, "apt-cache", "show", "linux-image-cloud-amd64").Output()
		return string(out)
	}
	text := show()
	if text == "" {
		if err := b.run(ctx, "", nil, "apt-get", "update", "-q"); err != nil {
			return "", err
		}
		text = show()
	}
	for line := range strings.Lines(text) {
		if deps, ok := strings.CutPrefix(line, "Depends: "); ok {
			pkg, _, _ := strings.Cut(deps, " ")
			return pkg, nil
		}
	}
	return "", errors.New("apt-cache knows no linux-image-cloud-amd64: is main of bookworm among the sources?")
}

func (b *builder) unpack(ctx context.Context, name, pkg string) error {
	dir := b.deb(name)
	tmp := dir + ".deb.d"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir), os.MkdirAll(tmp, 0o777)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := b.run(ctx, tmp, nil, "apt-get", "download", "-q", pkg); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download %s left %d files", pkg, len(debs))
	}
	return b.run(ctx, "", nil, "dpkg-deb", "-x", debs[0], dir)
}

func (b *builder) kernelVersion() (string, error) {
	mods, err := filepath.Glob(filepath.Join(b.deb("kernel"), "lib", "modules", "*"))
	if err != nil || len(mods) != 1 {
		return "", fmt.Errorf("%s holds %d kernels", b.deb("kernel"), len(mods))
	}
	return filepath.Base(mods[0]), nil
}
