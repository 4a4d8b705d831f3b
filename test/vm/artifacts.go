package vm

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

// Artifacts are the files that a virtual machine needs.
type Artifacts struct {
	Dir     string // the cache folder
	Kernel  string // vmlinuz
	Initrd  string
	Disk    string // root file system, ext4; never changed, because guests boot with snapshot=on
	Busybox string // for the host's end of the API server's forwarding
	KVM     bool   // whether the host's KVM runs this kernel
}

// Ensure makes missing files in cache and returns the artifacts. It installs missing Debian
// packages of QEMU and tools. It downloads (without installing) kernel, busybox and libseccomp, and
// builds kubelet, containerd, its shim, runc and the agent from their Go modules. A stamp next to
// each artifact has its inputs, so that a second call does nothing.
func Ensure(ctx context.Context, repo, cache string, log io.Writer) (*Artifacts, error) {
	b := &builder{repo: repo, cache: cache, log: log}
	for _, s := range b.steps() {
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

// step makes one artifact, if it is missing.
type step struct {
	what string
	make func(context.Context) error
}

// steps are in order: later steps need the results of earlier ones.
func (b *builder) steps() []step {
	return []step{
		{"Debian packages for QEMU", b.hostPackages},
		{"kernel, busybox and libseccomp", b.guestPackages},
		{"lscpu and numactl", b.guestTools},
		{"containerd, its shim and ctr (cold: about 2 minutes)", b.containerd},
		{"runc", b.runc},
		{"network plugins", b.networkPlugins},
		{"kubelet", b.kubelet},
		{"berth-agent", b.agent},
		{"the sample device plugin", b.plugin},
		{"the sample DRA driver", b.driver},
		{"initial ram disk", b.initrd},
		{"root file system", b.disk},
	}
}
