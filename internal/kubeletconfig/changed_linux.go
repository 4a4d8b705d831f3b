package kubeletconfig

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt returns when the file was last changed. It also uses the inode's change time, because
// cp -p, mv and rsync keep the modification time of the original file.
func changedAt(info fs.FileInfo) time.Time {
	at := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if change := time.Unix(s.Ctim.Unix()); change.After(at) {
			return change
		}
	}
	return at
}

// inode returns the number of the file's inode. It changes if a symbolic link is replaced by a link
// to another file.
func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
