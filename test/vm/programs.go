package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/berth-dev/berth/internal/version"
)

// The releases that run in the guest.
const (
	containerdVersion = "v2.4.2"
	runcVersion       = "v1.4.3"
	kubeVersion       = version.Base
	cniVersion        = "v1.9.1"
)

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

// cniPlugins join pods to the guest's network if a machine has a pod network.
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

// runc is linked statically with seccomp, which the kubelet requires in every sandbox.
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

// linkStatic are the linker flags for programs of this module. The programs are static, because the
// guest has few parts of glibc. They use the compiler flags of the tests, so that Kubernetes is not
// compiled twice.
const linkStatic = "-s -w -linkmode external -extldflags -static"

// kubeletVar is the environment variable with the release of the guest's kubelet, such as "1.37": a
// folder of test/conformance/versions. Without it the release is the one that this module requires.
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
		return "", "", fmt.Errorf("%s=%q: want a release of test/conformance/versions: %w", kubeletVar, minor, err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "k8s.io/kubernetes" {
			return words[1], modfile, nil
		}
	}
	return "", "", fmt.Errorf("%s: no k8s.io/kubernetes: want a line that requires it", modfile)
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

func (b *builder) driver(ctx context.Context) error {
	return b.own(ctx, "berth-sample-driver", "./test/vm/driver")
}

// own always builds a command of this module; the Go build cache detects if nothing changed.
func (b *builder) own(ctx context.Context, name, pkg string) error {
	release, err := exec.CommandContext(ctx, filepath.Join(b.repo, "build", "version.sh")).Output()
	if err != nil {
		return fmt.Errorf("build/version.sh: %w", err)
	}
	stamp := " -X github.com/berth-dev/berth/internal/version.Version=" + strings.TrimSpace(string(release))
	return b.run(ctx, b.repo, []string{"CGO_ENABLED=1"}, "go", "build", "-ldflags", linkStatic+stamp, "-o", b.bin(name), pkg)
}
