package capture

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// node is a file, a folder or a link of an archive.
type node struct {
	name     string
	mode     fs.FileMode
	data     []byte
	target   string // the target of a link
	children map[string]*node
}

func newFolder(name string) *node {
	return &node{name: name, mode: fs.ModeDir | 0o555, children: map[string]*node{}}
}

// memFS is a read-only file system in memory with symbolic links. Absolute links start at its root.
type memFS struct{ root *node }

var (
	_ fs.ReadDirFS  = memFS{}
	_ fs.StatFS     = memFS{}
	_ fs.ReadLinkFS = memFS{}
)

// maxLinks is the maximum number of links that are followed in one path, as in Linux.
const maxLinks = 40

// walk finds the node at name and follows links. If the last part of the name is a link, walk
// follows it only if the argument follow is true.
func (m memFS) walk(name string, follow bool) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	rest := strings.Split(name, "/")
	trail := []*node{m.root}
	for links := 0; len(rest) > 0; {
		step := rest[0]
		rest = rest[1:]
		here := trail[len(trail)-1]
		switch {
		case step == "" || step == ".":
			continue
		case step == "..":
			if len(trail) == 1 {
				return nil, fs.ErrNotExist // the link leads out of the capture
			}
			trail = trail[:len(trail)-1]
			continue
		}
		next := here.children[step]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		if next.mode&fs.ModeSymlink == 0 || len(rest) == 0 && !follow {
			trail = append(trail, next)
			continue
		}
		if links++; links > maxLinks {
			return nil, fs.ErrNotExist // a loop
		}
		if path.IsAbs(next.target) {
			trail = trail[:1]
		}
		rest = append(strings.Split(next.target, "/"), rest...)
	}
	return trail[len(trail)-1], nil
}

func (m memFS) find(op, name string, follow bool) (*node, error) {
	n, err := m.walk(name, follow)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return n, nil
}

// Open implements fs.FS.
func (m memFS) Open(name string) (fs.File, error) {
	n, err := m.find("open", name, true)
	if err != nil {
		return nil, err
	}
	return &file{node: n, Reader: bytes.NewReader(n.data), rest: n.entries()}, nil
}

// ReadDir implements fs.ReadDirFS.
func (m memFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := m.find("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !n.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return n.entries(), nil
}

// Stat implements fs.StatFS.
func (m memFS) Stat(name string) (fs.FileInfo, error) {
	n, err := m.find("stat", name, true)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Lstat implements fs.ReadLinkFS.
func (m memFS) Lstat(name string) (fs.FileInfo, error) {
	n, err := m.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ReadLink implements fs.ReadLinkFS.
func (m memFS) ReadLink(name string) (string, error) {
	n, err := m.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.mode&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return n.target, nil
}

// A node is its own fs.FileInfo and fs.DirEntry.

func (n *node) Name() string               { return n.name }
func (n *node) Size() int64                { return int64(len(n.data)) }
func (n *node) Mode() fs.FileMode          { return n.mode }
func (n *node) Type() fs.FileMode          { return n.mode.Type() }
func (n *node) ModTime() time.Time         { return time.Time{} }
func (n *node) IsDir() bool                { return n.mode.IsDir() }
func (n *node) Sys() any                   { return nil }
func (n *node) Info() (fs.FileInfo, error) { return n, nil }

func (n *node) entries() []fs.DirEntry {
	out := make([]fs.DirEntry, 0, len(n.children))
	for _, child := range n.children {
		out = append(out, child)
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// file is an open node.
type file struct {
	node *node
	*bytes.Reader
	rest []fs.DirEntry
}

func (f *file) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *file) Close() error               { return nil }

func (f *file) Read(b []byte) (int, error) {
	if f.node.IsDir() {
		return 0, &fs.PathError{Op: "read", Path: f.node.name, Err: fs.ErrInvalid}
	}
	return f.Reader.Read(b)
}

// ReadDir implements fs.ReadDirFile.
func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.rest) {
		n = len(f.rest)
	}
	out := f.rest[:n]
	f.rest = f.rest[n:]
	return out, nil
}
