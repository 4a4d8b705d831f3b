package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"
)

// errNotKept ends the program with exit code 1; the output already has the reason.
var errNotKept = errors.New("on a fresh machine the documents are not right")

// roleInside is the program's first argument in the namespaces; the second is a place, in JSON.
const roleInside = "inside"

// place describes a run for the process in the namespaces.
type place struct {
	// Base is the root directory that is kept, Dir the writable folder of this run.
	Base, Dir string
	// Log is the file for everything that the commands print.
	Log    string
	Cold   bool
	NoDemo bool
	// Go has the paths of Go's toolchain, modules and build cache. They are equal inside and
	// outside, because the cache knows packages by their folders.
	Go struct{ GOROOT, GOMODCACHE, GOCACHE string }
}

func (p *place) root() string       { return filepath.Join(p.Dir, "root") }
func (p *place) upper() string      { return filepath.Join(p.Dir, "upper") }
func (p *place) work() string       { return filepath.Join(p.Dir, "work") }
func (p *place) cacheUpper() string { return filepath.Join(p.Dir, "cache-upper") }
func (p *place) cacheWork() string  { return filepath.Join(p.Dir, "cache-work") }
func (p *place) bundle() string     { return filepath.Join(p.Dir, "berth.bundle") }

// start starts this program again, as the first process of new namespaces. When it ends, all
// processes and mounts of the namespaces end too.
func (p *place) start(ctx context.Context, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, roleInside, string(text))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // so that Ctrl-C reaches only the program outside
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && ctx.Err() == nil {
		return errNotKept
	}
	return err
}

// enter changes the root directory of this process to the root of the run.
func (p *place) enter() error {
	if err := mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := overlay(p.Base, p.upper(), p.work(), p.root()); err != nil {
		return err
	}
	if err := p.bringGo(); err != nil {
		return err
	}
	if err := p.bringKernel(); err != nil {
		return err
	}
	if err := copyFile(p.bundle(), p.in("/tmp/berth.bundle")); err != nil {
		return err
	}
	return errors.Join(syscall.Sethostname([]byte("fresh")), syscall.Chroot(p.root()), os.Chdir("/root"), raiseLoopback())
}

// in returns the path from outside for a path in the root.
func (p *place) in(path string) string { return filepath.Join(p.root(), path) }

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

func overlay(lower, upper, work, target string) error {
	return mount("overlay", target, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work))
}

// bringGo mounts this machine's Go in the root: toolchain and modules read-only, and the build
// cache below a writable layer.
func (p *place) bringGo() error {
	for _, path := range []string{p.Go.GOROOT, p.Go.GOMODCACHE} {
		if err := mount(path, p.in(path), "", syscall.MS_BIND, ""); err != nil {
			return err
		}
		if err := mount("none", p.in(path), "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
			return err
		}
	}
	if p.Cold {
		return nil
	}
	return overlay(p.Go.GOCACHE, p.cacheUpper(), p.cacheWork(), p.in(p.Go.GOCACHE))
}

// bringKernel mounts the kernel's file systems, and makes the usual devices.
func (p *place) bringKernel() error {
	if err := errors.Join(
		mount("proc", p.in("/proc"), "proc", 0, ""),
		mount("sysfs", p.in("/sys"), "sysfs", syscall.MS_RDONLY, ""),
		mount("tmpfs", p.in("/dev"), "tmpfs", 0, "mode=755"),
		mount("tmpfs", p.in("/dev/shm"), "tmpfs", 0, "mode=1777"),
	); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := os.WriteFile(p.in("/dev/"+name), nil, 0o644); err != nil {
			return err
		}
		if err := syscall.Mount("/dev/"+name, p.in("/dev/"+name), "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return os.Symlink("/proc/self/fd", p.in("/dev/fd"))
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// raiseLoopback switches the only interface on (netdevice(7)).
func raiseLoopback() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("the loopback interface: %w", errno)
	}
	return nil
}
