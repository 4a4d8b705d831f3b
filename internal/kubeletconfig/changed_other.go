//go:build !linux

package kubeletconfig

import (
	"io/fs"
	"time"
)

// changedAt returns the modification time. This changedAt is only for builds on other systems,
// because kubelets and agents run on Linux.
func changedAt(info fs.FileInfo) time.Time { return info.ModTime() }

// inode returns 0.
func inode(fs.FileInfo) uint64 { return 0 }
