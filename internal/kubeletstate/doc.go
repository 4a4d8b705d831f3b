// Package kubeletstate reads a kubelet's record of its assignments: the checkpoints of the CPU,
// memory and device managers. It only reads, from an fs.FS rooted at the kubelet's root directory
// (/var/lib/kubelet), and verifies checksums as the kubelet does.
//
// A checkpoint is the complete state of one manager. The kubelet replaces it atomically with each
// change (pkg/kubelet/checkpointmanager). It does not replace the three files together, and one
// allocation takes several replacements. A reader that needs a consistent state reads again until
// nothing changes and nothing is contradictory (package agent).
package kubeletstate
