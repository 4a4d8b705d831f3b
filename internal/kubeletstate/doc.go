// Package kubeletstate reads what a kubelet has written down about what it handed out: the
// checkpoints of the CPU, memory and device managers. It reads only, over an fs.FS rooted at the
// kubelet's root directory (/var/lib/kubelet), and verifies checksums as the kubelet itself does.
//
// A checkpoint is the kubelet's whole book of one manager, replaced atomically with each change
// (pkg/kubelet/checkpointmanager). The three files are not replaced together, and one allocation
// takes several replacements: a reader that wants one consistent state reads again until nothing
// moves and nothing contradicts (package agent).
package kubeletstate
