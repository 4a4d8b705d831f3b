package kubeletconfig

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt is when the file was changed last: its inode's change time, too, as cp -p, mv and rsync
// set the time of modification to that of another file.
func changedAt(info fs.FileInfo) time.Time {
	at := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if change := time.Unix(s.Ctim.Unix()); change.After(at) {
			return change
		}
	}
	return at
}
