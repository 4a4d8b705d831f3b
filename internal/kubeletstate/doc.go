// Package kubeletstate reads a kubelet's records of its assignments: the checkpoints of the CPU,
// memory and device managers. It only reads, from an fs.FS rooted at the kubelet's root directory
// (/var/lib/kubelet), and verifies checksums as the kubelet does.
//
// A checkpoint is the complete state of one manager. The kubelet replaces it atomically with each
// change (pkg/kubelet/checkpointmanager). But it replaces the files of the managers one after
// another, and may replace a file twice for one allocation. A reader that needs a consistent state
// must read repeatedly until the files do not change and do not contradict each other (package
// agent).
package kubeletstate
