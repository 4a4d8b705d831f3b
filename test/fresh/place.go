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

// errNotKept is the answer no; the output has said why.
var errNotKept = errors.New("a fresh machine does not do what the documents say")

// roleInside is the program's first argument in the namespaces; the second is a place, in JSON.
const roleInside = "inside"

// place is where a run happens, as the namespaces are told.
type place struct {
	// Base is the root that is kept, Dir the folder of this run, in which all is written.
	Base, Dir string
	// Log is the file for everything that the commands print.
	Log    string
	Cold   bool
	NoDemo bool
	// Go says where Go's toolchain, modules and build cache are, the same inside as outside: the
	// cache knows packages by their folders.
	Go struct{ GOROOT, GOMODCACHE, GOCACHE string }
}

func (p *place) root() string       { return filepath.Join(p.Dir, "root") }
func (p *place) upper() string      { return filepath.Join(p.Dir, "upper") }
func (p *place) work() string       { return filepath.Join(p.Dir, "work") }
func (p *place) cacheUpper() string { return filepath.Join(p.Dir, "cache-upper") }
func (p *place) cacheWork() string  { return filepath.Join(p.Dir, "cache-work") }
func (p *place) bundle() string     { return filepath.Join(p.Dir, "berth.bundle") }

// start starts this program again, as the first process of namespaces. What is running there when
// it ends, ends with it, and so do the mounts.
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
		Setpgid:    true, // Ctrl-C here is for the program outside
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && ctx.Err() == nil {
		return errNotKept
	}
	return err
}

// enter makes the root of the run this process's own.
func (p *place) enter() error {
	mount := func(source, target, kind string, flags uintptr, data string) error {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(source, target, kind, flags, data); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
		return nil
	}
	overlay := func(lower, upper, work, target string) error {
		return mount("overlay", target, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work))
	}
	in := func(path string) string { return filepath.Join(p.root(), path) }
	if err := mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := overlay(p.Base, p.upper(), p.work(), p.root()); err != nil {
		return err
	}
	for _, path := range []string{p.Go.GOROOT, p.Go.GOMODCACHE} {
		if err := mount(path, in(path), "", syscall.MS_BIND, ""); err != nil {
			return err
		}
		if err := mount("none", in(path), "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
			return err
		}
	}
	if !p.Cold {
		if err := overlay(p.Go.GOCACHE, p.cacheUpper(), p.cacheWork(), in(p.Go.GOCACHE)); err != nil {
			return err
		}
	}
	if err := errors.Join(
		mount("proc", in("/proc"), "proc", 0, ""),
		mount("sysfs", in("/sys"), "sysfs", syscall.MS_RDONLY, ""),
		mount("tmpfs", in("/dev"), "tmpfs", 0, "mode=755"),
		mount("tmpfs", in("/dev/shm"), "tmpfs", 0, "mode=1777"),
	); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := os.WriteFile(in("/dev/"+name), nil, 0o644); err != nil {
			return err
		}
		if err := syscall.Mount("/dev/"+name, in("/dev/"+name), "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := os.Symlink("/proc/self/fd", in("/dev/fd")); err != nil {
		return err
	}
	if err := copyFile(p.bundle(), in("/tmp/berth.bundle")); err != nil {
		return err
	}
	return errors.Join(syscall.Sethostname([]byte("fresh")), syscall.Chroot(p.root()), os.Chdir("/root"), raiseLoopback())
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
