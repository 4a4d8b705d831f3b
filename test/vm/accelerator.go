package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// kernelArgs are chosen for software emulation: they skip waits for timers and unnecessary checks.
const kernelArgs = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr init_on_alloc=0 random.trust_cpu=on nowatchdog " +
	"numa_balancing=disable rcupdate.rcu_expedited=1 rcupdate.rcu_cpu_stall_suppress=1 clocksource=tsc tsc=reliable"

// With an Intel vendor string the guest has the CPUID leaves 4, 0xB and 0x1F, which describe
// siblings, dies and L3, on any host. The software emulator has no AMD topology extension. QEMU 7.2
// aborts under a KVM that offers MSR 0x10a but does not allow setting it.
const (
	emulatedCPU = "max,vendor=GenuineIntel"
	kvmCPU      = emulatedCPU + ",arch-capabilities=off"
)

// probeAnswer is the output of the initial RAM disk when it is started as a probe.
const probeAnswer = "the kernel runs"

// probeLimit is how long a kernel may take to print probeAnswer. With a working KVM it takes a
// second.
const probeLimit = 20 * time.Second

// processor chooses KVM if it runs the guest's kernel, otherwise the software emulator. One
// emulation thread per CPU is faster only on small machines.
func (a *Artifacts) processor(cpus int) []string {
	switch {
	case a.KVM:
		return []string{"-accel", "kvm", "-cpu", kvmCPU}
	case cpus > 16:
		return []string{"-accel", "tcg,thread=single", "-cpu", emulatedCPU}
	}
	return []string{"-accel", "tcg,thread=multi", "-cpu", emulatedCPU}
}

// kvm finds out whether KVM runs the guest's kernel. On a host that is itself a guest, /dev/kvm may
// open and the firmware may run, and the kernel still hangs. The answer is valid until the host
// boots again or the kernel changes.
func (b *builder) kvm(ctx context.Context, a *Artifacts) bool {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false
	}
	question := fmt.Sprintf("%s %s %s ", strings.TrimSpace(string(boot)), filepath.Base(a.Kernel), kvmCPU)
	stamp := filepath.Join(b.cache, "stamp", "kvm")
	if old, err := os.ReadFile(stamp); err == nil {
		if answer, same := strings.CutPrefix(string(old), question); same {
			return answer == "yes"
		}
	}
	answer := "no"
	if a.probe(ctx, "kvm", kvmCPU) {
		answer = "yes"
	}
	b.say("does KVM run the guest's kernel here? %s", answer)
	_ = os.WriteFile(stamp, []byte(question+answer), 0o644) // without the file the next run tests again
	return answer == "yes"
}

// probe starts only the kernel under an accelerator.
func (a *Artifacts) probe(ctx context.Context, accelerator, cpu string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", accelerator, "-cpu", cpu, "-machine", "q35", "-smp", "2", "-m", "256M",
		"-nographic", "-nodefaults", "-serial", "stdio", "-monitor", "none", "-no-reboot",
		"-kernel", a.Kernel, "-initrd", a.Initrd, "-append", kernelArgs+" probe=1") // init gets unknown kernel arguments as variables
	out, _ := cmd.CombinedOutput() // if QEMU crashes or is killed, the output lacks the answer
	return bytes.Contains(out, []byte(probeAnswer))
}
