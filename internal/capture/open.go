package capture

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Capture is an open capture.
type Capture struct {
	// FS has the folder sys at its root, and possibly the folder proc.
	FS fs.FS

	root *os.Root
}

// Close releases the capture. FS must not be used afterwards.
func (c *Capture) Close() error {
	if c.root == nil {
		return nil
	}
	return c.root.Close()
}

// Open opens a folder that contains sys/, or an archive (.tar, .tar.gz, .tgz, .tar.bz2, .tar.xz)
// that contains such a folder, at most maxDepth folders deep. "NAME:FOLDER" opens the given folder
// inside the folder or archive NAME. This form is necessary for an archive of several machines.
func Open(name string) (*Capture, error) {
	file, inner := name, ""
	info, err := os.Stat(name)
	if i := strings.LastIndex(name, ":"); err != nil && i > 0 {
		if other, err2 := os.Stat(name[:i]); err2 == nil {
			file, inner, info, err = name[:i], path.Clean(name[i+1:]), other, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(name, file, inner)
	}
	if !info.Mode().IsRegular() { // reading a pipe or a device may never end
		return nil, fmt.Errorf("%s is a pipe, a socket or a device: want a folder or an archive", file)
	}
	return openArchive(name, file, inner)
}

func openFolder(name, dir, inner string) (*Capture, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if inner != "" {
		outer := root
		root, err = outer.OpenRoot(strings.Trim(inner, "/"))
		outer.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := check(root.FS(), name); err != nil {
		root.Close()
		return nil, err
	}
	return &Capture{FS: root.FS(), root: root}, nil
}

func openArchive(name, file, inner string) (*Capture, error) {
	tree, err := openTree(file)
	if err != nil {
		return nil, err
	}
	if inner != "" {
		return at(tree, name, strings.Trim(inner, "/"))
	}
	found := machines(tree)
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("archive %s: no folder in it contains %s: want an archive of the folder sys/ of a machine", file, mark)
	case 1:
		return at(tree, name, found[0])
	default:
		folders := strings.Join(found[:min(len(found), 20)], ", ")
		if len(found) > 20 {
			folders += ", ..."
		}
		return nil, fmt.Errorf("archive %s: %d machines: want one of them, as %s:FOLDER, where FOLDER is one of %s", file, len(found), file, folders)
	}
}

func openTree(file string) (memFS, error) {
	f, err := os.Open(file)
	if err != nil {
		return memFS{}, err
	}
	defer f.Close()
	tree, err := readArchive(f)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return memFS{}, fmt.Errorf("archive %s: the file is incomplete: fetch or create it again (%w)", file, err)
	}
	if err != nil {
		return memFS{}, fmt.Errorf("archive %s: %w", file, err)
	}
	return tree, nil
}

// mark is the path of a folder that every capture contains. Open recognizes a capture by this
// folder.
const mark = "sys/devices/system/cpu"

// The function at returns the capture whose root is the folder inner of an archive.
func at(tree memFS, name, inner string) (*Capture, error) {
	n, err := tree.find("open", inner, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sub := memFS{n}
	if err := check(sub, name); err != nil {
		return nil, err
	}
	return &Capture{FS: sub}, nil
}

// check returns an error if fsys is not a capture.
func check(fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, mark)
	if err == nil && !info.IsDir() {
		err = errors.New(mark + " is not a folder")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want the folder that contains sys/", name, err)
	}
	return nil
}

// machines returns the folders of an archive that are captures, in order.
func machines(tree memFS) []string {
	var found []string
	var search func(n *node, name string, depth int)
	search = func(n *node, name string, depth int) {
		if isMachine(n) {
			found = append(found, name)
			return
		}
		if depth == 0 {
			return
		}
		for _, child := range n.children {
			if child.IsDir() {
				search(child, path.Join(name, child.name), depth-1)
			}
		}
	}
	search(tree.root, ".", maxDepth)
	slices.Sort(found)
	return found
}

// maxDepth is the number of levels of folders in which the function machines searches for captures.
const maxDepth = 12

func isMachine(n *node) bool {
	for step := range strings.SplitSeq(mark, "/") {
		if n = n.children[step]; n == nil || !n.IsDir() {
			return false
		}
	}
	return true
}
