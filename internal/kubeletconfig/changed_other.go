//go:build !linux

package kubeletconfig

import (
	"io/fs"
	"time"
)

// changedAt is when the file was modified: kubelets, and agents next to them, run on Linux.
func changedAt(info fs.FileInfo) time.Time { return info.ModTime() }
