//go:build !linux

package kubeletconfig

import (
	"io/fs"
	"time"
)

// changedAt returns the modification time: kubelets, and agents beside them, run on Linux.
func changedAt(info fs.FileInfo) time.Time { return info.ModTime() }
