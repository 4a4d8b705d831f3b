package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

// Config describes the machine to boot.
type Config struct {
	Name  string
	Shape Shape
	// APIPort is the loopback port of the API server; the guest sees it as 10.0.2.100:6443.
	APIPort int
	// Files go to /etc/berth in the guest: name, kubelet.yaml, kubeconfig, start.sh, agent.sh ...
	Files map[string][]byte
	// Archive is a tar file that the guest sees as its third disk; "" is none.
	Archive string
	// PCI gives the machine devices below a switch of each NUMA node.
	PCI bool
	// KernelArgs are appended to the kernel's command line ("hugepagesz=2M hugepages=64").
	KernelArgs string
	// Dir is the folder for the console's output and the files of a failed run.
	Dir string
}

// Machine is a running QEMU process.
type Machine struct {
	Config
	Guest   Guest
	console string
	qemu    *child.Process
}

// bootLimit is how long a machine may take until its shell answers. Usually it takes seconds, but
// an emulated machine may hang before its kernel prints anything.
const bootLimit = time.Minute

// Boot starts the machine and returns when its shell answers. If the machine does not start in
// time, Boot tries once more.
func (a *Artifacts) Boot(ctx context.Context, c Config) (*Machine, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	seed := filepath.Join(c.Dir, c.Name+".tar")
	if err := writeSeed(seed, c); err != nil {
		return nil, err
	}
	once, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	m, err := a.boot(once, c, seed)
	if err != nil && once.Err() != nil && ctx.Err() == nil {
		fmt.Printf("== machine %s does not start; trying again: %v\n", c.Name, err)
		m, err = a.boot(ctx, c, seed)
	}
	return m, err
}

func (a *Artifacts) boot(ctx context.Context, c Config, seed string) (*Machine, error) {
	shell, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	m := &Machine{Config: c, Guest: Guest{addr: fmt.Sprintf("127.0.0.1:%d", shell)}, console: filepath.Join(c.Dir, c.Name+".console")}
	if err := m.start(a, seed, shell); err != nil {
		return nil, err
	}
	if err := m.awaitShell(ctx); err != nil {
		m.Stop()
		return nil, fmt.Errorf("%w; the console's end (%s):\n%s", err, m.console, m.Console(2000))
	}
	return m, nil
}

func (m *Machine) start(a *Artifacts, seed string, shell int) (err error) {
	if err := os.RemoveAll(m.console); err != nil {
		return err
	}
	// Every emulated processor is a thread. With normal priority these threads would leave the
	// control plane no time on a small host.
	argv := append([]string{"nice", "-n", "5", "qemu-system-x86_64"}, m.args(a, seed, shell)...)
	m.qemu, err = child.Start(child.Spec{Name: "QEMU of machine " + m.Name, Argv: argv, Log: m.console, Foreign: true})
	return err
}

func (m *Machine) args(a *Artifacts, seed string, shell int) []string {
	args := []string{"-machine", "q35", "-nographic", "-nodefaults", "-serial", "stdio", "-monitor", "none"}
	args = append(args, a.processor(m.Shape.CPUs())...)
	args = append(args, m.Shape.qemuArgs()...)
	forward := fmt.Sprintf("guestfwd=tcp:10.0.2.100:6443-cmd:%s nc 127.0.0.1 %d", a.Busybox, m.APIPort)
	args = append(args,
		"-kernel", a.Kernel, "-initrd", a.Initrd, "-append", strings.TrimSpace(kernelArgs+counterArgs(a.KVM)+" "+m.KernelArgs),
		"-drive", "file="+a.Disk+",if=virtio,format=raw,snapshot=on",
		"-drive", "file="+seed+",if=virtio,format=raw,readonly=on",
		"-netdev", fmt.Sprintf("user,id=n0,restrict=on,ipv6=off,%s,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:2222", forward, shell),
		"-device", "virtio-net-pci,netdev=n0,romfile=")
	if m.Archive != "" {
		args = append(args, "-drive", "file="+m.Archive+",if=virtio,format=raw,readonly=on")
	}
	if m.PCI {
		args = append(onFirstRoot(args), m.Shape.pciArgs()...)
	}
	return args
}

func writeSeed(path string, c Config) error {
	entries := []tarEntry{{name: "name", mode: 0o644, data: []byte(c.Name)}}
	for name, data := range c.Files {
		entries = append(entries, tarEntry{name: name, mode: 0o644, data: data})
	}
	data, err := tarball(entries)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, make([]byte, 512-len(data)%512)...), 0o600)
}

func (m *Machine) awaitShell(ctx context.Context) error {
	for {
		if out, err := m.Guest.Run(ctx, "echo ready"); err == nil && strings.TrimSpace(out) == "ready" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("machine %s: its shell does not answer: %w", m.Name, ctx.Err())
		case <-m.qemu.Done():
			return m.qemu.Ended()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Console returns the last n bytes of the console.
func (m *Machine) Console(n int) string {
	data, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return string(tail(data, n))
}

// Stop ends the machine; it may be called twice.
func (m *Machine) Stop() { m.qemu.Kill() }

// Guest runs commands inside a machine.
type Guest struct{ addr string }

// mark separates a command's output from its exit code.
const mark = "\x01exit "

// Run runs a script as root in the guest and returns its output. An exit code other than 0 is an
// error.
func (g Guest) Run(ctx context.Context, script string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", g.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(conn, "(%s\n) 2>&1\nprintf '\\001exit %%d\\n' $?\nexit\n", script); err != nil {
		return "", err
	}
	data, err := io.ReadAll(conn)
	if err != nil {
		return "", errors.Join(err, ctx.Err())
	}
	out, code, ok := strings.Cut(string(data), mark)
	if !ok {
		return out, fmt.Errorf("guest: the connection ended before the command did: %q", tail(data, 200))
	}
	if code = strings.TrimSpace(code); code != "0" {
		return out, fmt.Errorf("guest: exit code %s: %s", code, tail([]byte(out), 500))
	}
	return out, nil
}
