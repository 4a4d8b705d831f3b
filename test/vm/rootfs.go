package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// guestInit is process 1 of the guest. The second disk is a tar with the files that differ between
// machines.
const guestInit = `#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin
/bin/busybox --install -s /bin 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t cgroup2 -o favordynmods cgroup /sys/fs/cgroup || mount -t cgroup2 cgroup /sys/fs/cgroup
mount --make-rshared /
mkdir -p /etc/berth /var/log /run/containerd
tar -x -f /dev/vdb -C /etc/berth
hostname "$(cat /etc/berth/name)"
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
. /etc/berth/start.sh
nc -ll -p 2222 -e /bin/sh &
/sbin/containerd-run &
n=0; until ctr version >/dev/null 2>&1; do n=$((n+1)); [ $n -gt 600 ] && echo "containerd does not answer" && break; usleep 100000; done
ctr -n k8s.io images ls -q 2>/dev/null | grep -q wait || ctr -n k8s.io images import /image.tar >/var/log/import.log 2>&1
/sbin/kubelet-run &
/sbin/agent-run &
/sbin/plugins-run &
/sbin/driver-run &
echo "guest is up"
while :; do wait; sleep 1; done
`

// containerdRun keeps containerd running; a test restarts it by killing it. Containers continue,
// because they belong to containerd's shims.
const containerdRun = `#!/bin/busybox sh
while :; do
  containerd --config /etc/containerd.toml >>/var/log/containerd.log 2>&1
  echo "containerd ended with $?" >>/var/log/containerd.log
  sleep 1
done
`

// kubeletRun keeps the kubelet running; a test restarts it by killing it.
const kubeletRun = `#!/bin/busybox sh
while :; do
  kubelet --config=/etc/berth/kubelet.yaml --kubeconfig=/etc/berth/kubeconfig --node-ip=10.0.2.15 \
    --hostname-override="$(cat /etc/berth/name)" --cert-dir=/tmp/kubelet-pki -v=2 >>/var/log/kubelet.log 2>&1
  echo "kubelet ended with $?" >>/var/log/kubelet.log
  sleep 1
  while [ -e /run/kubelet-hold ]; do usleep 100000; done
done
`

const agentRun = `#!/bin/busybox sh
while :; do
  . /etc/berth/agent.sh >>/var/log/agent.log 2>&1
  echo "agent ended with $?" >>/var/log/agent.log
  sleep 1
done
`

// pluginsRun keeps a device plugin running for each line of /etc/berth/plugins, which has its
// flags.
const pluginsRun = `#!/bin/busybox sh
[ -f /etc/berth/plugins ] || exit 0
while read -r flags; do
  while :; do
    if [ -S /var/lib/kubelet/device-plugins/kubelet.sock ]; then berth-sample-plugin $flags >>/var/log/plugins.log 2>&1 </dev/null; fi
    sleep 1
  done &
done </etc/berth/plugins
wait
`

// driverRun keeps a DRA driver running with the flags in /etc/berth/driver.
const driverRun = `#!/bin/busybox sh
[ -f /etc/berth/driver ] || exit 0
while :; do
  berth-sample-driver --node="$(cat /etc/berth/name)" --kubeconfig=/etc/berth/kubeconfig $(cat /etc/berth/driver) >>/var/log/driver.log 2>&1
  sleep 1
done
`

const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + Image + `'
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/opt/cni/bin']
  conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.nri.v1.nri']
  disable = false
`

// Without a network plugin the kubelet is never Ready, even if every pod uses the host's network. A
// plugin that does nothing suffices.
const (
	cniPlugin = "#!/bin/busybox sh\n[ \"$CNI_COMMAND\" = VERSION ] && echo '{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[\"1.0.0\"]}' && exit 0\necho '{\"cniVersion\":\"1.0.0\"}'\n"
	cniConfig = `{"cniVersion":"1.0.0","name":"none","plugins":[{"type":"noop"}]}`
)

// disk makes the root file system.
func (b *builder) disk(ctx context.Context) error {
	out := filepath.Join(b.cache, "root.ext4")
	key, err := b.diskKey()
	if err != nil {
		return err
	}
	return b.stamped("root file system", key, []string{out}, func() error {
		root := filepath.Join(b.cache, "root")
		if err := b.populate(root); err != nil {
			return err
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
		if err := b.run(ctx, "", nil, "mke2fs", "-q", "-t", "ext4", "-d", root, out, "1500M"); err != nil {
			return err
		}
		return os.RemoveAll(root)
	})
}

// diskKey changes when any file of the disk changes.
func (b *builder) diskKey() (string, error) {
	h := sha256.New()
	for _, name := range slices.Concat(guestBinaries, cniPlugins) {
		f, err := os.Open(b.bin(path.Base(name)))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	fmt.Fprintln(h, toolFiles)
	io.WriteString(h, guestInit+containerdRun+kubeletRun+agentRun+pluginsRun+driverRun+containerdConfig+cniPlugin+cniConfig+waitScript)
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

var guestBinaries = []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "kubelet", "berth-agent", "berth-sample-plugin", "berth-sample-driver"}

func (b *builder) populate(root string) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	for _, dir := range []string{"bin", "sbin", "proc", "sys", "dev", "run", "tmp", "etc/cni/net.d", "opt/cni/bin", "usr/local/bin", "usr/bin", "usr/sbin", "lib64", "lib/x86_64-linux-gnu", "var/log", "var/lib", "root"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	image, err := imageArchive(b.busybox())
	if err != nil {
		return err
	}
	texts := map[string]string{
		"sbin/init": guestInit, "sbin/containerd-run": containerdRun, "sbin/kubelet-run": kubeletRun, "sbin/agent-run": agentRun, "sbin/plugins-run": pluginsRun, "sbin/driver-run": driverRun, "etc/containerd.toml": containerdConfig,
		"opt/cni/bin/noop": cniPlugin, "etc/cni/net.d/10-none.conflist": cniConfig, "image.tar": string(image),
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/hosts": "127.0.0.1 localhost\n", "etc/resolv.conf": "",
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	errs := []error{copyFile(b.busybox(), filepath.Join(root, "bin", "busybox"))}
	for _, name := range guestBinaries {
		errs = append(errs, copyFile(b.bin(name), filepath.Join(root, "usr/local/bin", name)))
	}
	for _, p := range cniPlugins {
		errs = append(errs, copyFile(b.bin(path.Base(p)), filepath.Join(root, "opt/cni/bin", path.Base(p))))
	}
	for _, f := range toolFiles {
		errs = append(errs, copyFile(filepath.Join(b.deb(f.pkg), f.from), filepath.Join(root, f.to)))
	}
	return errors.Join(errs...)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}
