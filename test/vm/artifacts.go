package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// The releases that run in the guest.
const (
	containerdVersion = "v2.4.2"
	runcVersion       = "v1.4.3"
	kubeVersion       = "v1.36.3"
	cniVersion        = "v1.9.1"
)

// Artifacts are the files that a machine is made of.
type Artifacts struct {
	Dir     string // the cache folder
	Kernel  string // vmlinuz
	Initrd  string
	Disk    string // root file system, ext4; booted with snapshot=on and so never changed
	Busybox string // for the host's end of the API server's forwarding
	KVM     bool   // whether the host's KVM runs this kernel
}

// builder makes the artifacts that are missing, saying what it does.
type builder struct {
	repo  string // root of the module
	cache string
	log   io.Writer
}

// Ensure makes what is missing in cache and returns the artifacts. It installs QEMU and tools as
// Debian packages where they are not there, downloads (without installing) kernel, busybox and
// libseccomp, and builds kubelet, containerd, its shim, runc and the agent from their Go modules. A
// stamp beside each says what it was made from, so that a second call does nothing.
func Ensure(ctx context.Context, repo, cache string, log io.Writer) (*Artifacts, error) {
	b := &builder{repo: repo, cache: cache, log: log}
	steps := []struct {
		what string
		make func(context.Context) error
	}{
		{"Debian packages for QEMU", b.hostPackages},
		{"kernel, busybox and libseccomp", b.guestPackages},
		{"lscpu and numactl", b.guestTools},
		{"containerd, its shim and ctr (cold: about 2 minutes)", b.containerd},
		{"runc", b.runc},
		{"network plugins", b.networkPlugins},
		{"kubelet", b.kubelet},
		{"berth-agent", b.agent},
		{"the sample device plugin", b.plugin},
		{"initial ram disk", b.initrd},
		{"root file system", b.disk},
	}
	for _, s := range steps {
		if err := s.make(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
	}
	kernel, err := b.kernelVersion()
	if err != nil {
		return nil, err
	}
	a := &Artifacts{
		Dir:     cache,
		Kernel:  filepath.Join(b.deb("kernel"), "boot", "vmlinuz-"+kernel),
		Initrd:  filepath.Join(cache, "initrd"),
		Disk:    filepath.Join(cache, "root.ext4"),
		Busybox: b.busybox(),
	}
	a.KVM = b.kvm(ctx, a)
	return a, nil
}

func (b *builder) say(format string, args ...any) { fmt.Fprintf(b.log, "== "+format+"\n", args...) }

func (b *builder) bin(name string) string { return filepath.Join(b.cache, "bin", name) }
func (b *builder) deb(name string) string { return filepath.Join(b.cache, "deb", name) }
func (b *builder) busybox() string        { return filepath.Join(b.deb("busybox"), "bin", "busybox") }

// run runs a command and returns its output only when it fails.
func (b *builder) run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(out, 4000))
	}
	return nil
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}

// stamped runs make unless a stamp of that name with that text is there and every file exists.
func (b *builder) stamped(name, text string, files []string, make func() error) error {
	stamp := filepath.Join(b.cache, "stamp", name)
	if old, err := os.ReadFile(stamp); err == nil && string(old) == text && allExist(files) {
		return nil
	}
	b.say("making %s", name)
	if err := make(); err != nil {
		return err
	}
	if !allExist(files) {
		return fmt.Errorf("%s: %s did not appear", name, strings.Join(files, ", "))
	}
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(text), 0o644)
}

func allExist(files []string) bool {
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return false
		}
	}
	return true
}

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

// guestPackages downloads and unpacks what the guest takes from Debian; nothing of it is installed
// on the host.
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

// toolFiles are the guest's part of glibc's world: the tools that people trust about a machine, and
// what they are linked with. The loader looks for libraries in /lib/x86_64-linux-gnu.
var toolFiles = []struct{ pkg, from, to string }{
	{"util-linux", "usr/bin/lscpu", "usr/bin/lscpu"},
	{"numactl", "usr/bin/numactl", "usr/bin/numactl"},
	{"libnuma1", "usr/lib/x86_64-linux-gnu/libnuma.so.1", "lib/x86_64-linux-gnu/libnuma.so.1"},
	{"libsmartcols1", "usr/lib/x86_64-linux-gnu/libsmartcols.so.1", "lib/x86_64-linux-gnu/libsmartcols.so.1"},
	{"libc6", "lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libc.so.6"},
	{"libc6", "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"},
}

// guestTools downloads them; nothing of it is installed on the host.
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

// kernelPackage returns the package that linux-image-cloud-amd64 stands for.
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

func (b *builder) containerd(ctx context.Context) error {
	names := []string{"containerd", "containerd-shim-runc-v2", "ctr"}
	var files []string
	for _, n := range names {
		files = append(files, b.bin(n))
	}
	return b.stamped("containerd", containerdVersion, files, func() error {
		for _, n := range names {
			err := b.run(ctx, os.TempDir(), []string{"CGO_ENABLED=0", "GOFLAGS=", "GOBIN=" + filepath.Dir(b.bin(n))},
				"go", "install", "-trimpath", "-ldflags", "-s -w", "github.com/containerd/containerd/v2/cmd/"+n+"@"+containerdVersion)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// cniPlugins join pods to the guest's network where a machine wants them to have one of their own.
var cniPlugins = []string{"main/loopback", "main/ptp", "ipam/host-local"}

func (b *builder) networkPlugins(ctx context.Context) error {
	var files []string
	for _, p := range cniPlugins {
		files = append(files, b.bin(path.Base(p)))
	}
	return b.stamped("network plugins", cniVersion, files, func() error {
		for _, p := range cniPlugins {
			err := b.run(ctx, os.TempDir(), []string{"CGO_ENABLED=0", "GOFLAGS=", "GOBIN=" + filepath.Join(b.cache, "bin")},
				"go", "install", "-trimpath", "-ldflags", "-s -w", "github.com/containernetworking/plugins/plugins/"+p+"@"+cniVersion)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// runc is linked statically with seccomp, which the kubelet asks for in every sandbox.
func (b *builder) runc(ctx context.Context) error {
	return b.stamped("runc", runcVersion, []string{b.bin("runc")}, func() error {
		lib := filepath.Join(b.deb("libseccomp-dev"), "usr")
		env := []string{
			"CGO_ENABLED=1", "GOFLAGS=", "GOBIN=" + filepath.Dir(b.bin("runc")),
			"PKG_CONFIG_SYSROOT_DIR=" + b.deb("libseccomp-dev"),
			"PKG_CONFIG_PATH=" + filepath.Join(lib, "lib/x86_64-linux-gnu/pkgconfig"),
			"CGO_CFLAGS=-I" + filepath.Join(lib, "include"),
			"CGO_LDFLAGS=-L" + filepath.Join(lib, "lib/x86_64-linux-gnu"),
		}
		return b.run(ctx, os.TempDir(), env, "go", "install", "-trimpath", "-tags", "seccomp netgo osusergo",
			"-ldflags", "-s -w -linkmode external -extldflags -static", "github.com/opencontainers/runc@"+runcVersion)
	})
}

// linkStatic is for what is made of this module's packages: static, because the guest has little of
// glibc's world, and compiled with the flags of the tests, so that Kubernetes, which they are
// linked with, is not compiled a second time.
const linkStatic = "-s -w -linkmode external -extldflags -static"

// kubeletVar names the environment's release of the guest's kubelet, "1.37" say: one of the folders
// of test/conformance/versions. Without it the release is the one that this module requires.
const kubeletVar = "E2E_KUBELET"

// kubeletRelease returns the version of the guest's kubelet, and the go.mod that it is built with.
func kubeletRelease(repo string) (version, modfile string, err error) {
	minor := os.Getenv(kubeletVar)
	if minor == "" || strings.HasPrefix(kubeVersion, "v"+minor+".") {
		return kubeVersion, filepath.Join(repo, "go.mod"), nil
	}
	modfile = filepath.Join(repo, "test", "conformance", "versions", "v"+minor, "go.mod")
	text, err := os.ReadFile(modfile)
	if err != nil {
		return "", "", fmt.Errorf("%s=%q: want a release that test/conformance/versions has: %w", kubeletVar, minor, err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "k8s.io/kubernetes" {
			return words[1], modfile, nil
		}
	}
	return "", "", fmt.Errorf("%s: requires no k8s.io/kubernetes", modfile)
}

func (b *builder) kubelet(ctx context.Context) error {
	version, modfile, err := kubeletRelease(b.repo)
	if err != nil {
		return err
	}
	return b.stamped("kubelet", version+linkStatic, []string{b.bin("kubelet")}, func() error {
		return b.run(ctx, b.repo, []string{"CGO_ENABLED=1"}, "go", "build", "-modfile="+modfile,
			"-ldflags", linkStatic+" -X k8s.io/component-base/version.gitVersion="+version, "-o", b.bin("kubelet"), "k8s.io/kubernetes/cmd/kubelet")
	})
}

func (b *builder) agent(ctx context.Context) error {
	return b.own(ctx, "berth-agent", "./cmd/berth-agent")
}

func (b *builder) plugin(ctx context.Context) error {
	return b.own(ctx, "berth-sample-plugin", "./test/vm/plugin")
}

// own builds a command of this module each time: the Go build cache knows whether anything changed.
func (b *builder) own(ctx context.Context, name, pkg string) error {
	release, err := exec.CommandContext(ctx, filepath.Join(b.repo, "build", "version.sh")).Output()
	if err != nil {
		return fmt.Errorf("build/version.sh: %w", err)
	}
	stamp := " -X github.com/berth-dev/berth/internal/version.Version=" + strings.TrimSpace(string(release))
	return b.run(ctx, b.repo, []string{"CGO_ENABLED=1"}, "go", "build", "-ldflags", linkStatic+stamp, "-o", b.bin(name), pkg)
}
