package capture

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/ulikunitz/xz"
)

// The limits of an archive. The largest capture in the tests unpacks to 20 MiB.
const (
	maxUnpacked = 512 << 20 // bytes of the tar stream
	maxKept     = 128 << 20 // bytes of files kept in memory
	maxFile     = 1 << 20   // bytes of one file that are kept; a sysfs attribute has at most one page
	maxEntries  = 1 << 20
	maxPath     = 4096
	maxXZDict   = 64 << 20 // the dictionary size of "xz -9"
)

// errTooLarge is the error for an archive that unpacks to more than maxUnpacked.
var errTooLarge = fmt.Errorf("the unpacked archive is larger than %d MiB: want an archive of only the folder sys/", maxUnpacked>>20)

// readArchive unpacks a tar archive, compressed or not, into memory.
func readArchive(r io.Reader) (memFS, error) {
	stream, err := unpack(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return memFS{}, err
	}
	b := builder{fs: memFS{newFolder(".")}}
	bounded := &limited{r: stream, left: maxUnpacked}
	archive := tar.NewReader(bounded)
	for {
		header, err := archive.Next()
		if err == io.EOF && bounded.zeros < 512 {
			err = io.ErrUnexpectedEOF // archive/tar accepts an archive without the block of zeros at its end
		}
		if err == io.EOF {
			return b.finish()
		}
		if err == nil {
			err = b.add(header, archive)
		}
		if err != nil {
			return memFS{}, fmt.Errorf("entry %d: %w", b.count, err)
		}
	}
}

// unpack detects the compression from the first bytes, because the file may have a wrong name.
func unpack(r *bufio.Reader) (io.Reader, error) {
	magic, err := r.Peek(64)
	if err != nil && len(magic) == 0 {
		return nil, errors.New("the file is empty")
	}
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		return gzip.NewReader(r)
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bzip2.NewReader(r), nil
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		if dict := xzDict(magic); dict > maxXZDict {
			return nil, fmt.Errorf("xz: a dictionary of %d MiB: want at most %d MiB, as xz -6 writes", dict>>20, maxXZDict>>20)
		}
		return xz.NewReader(r)
	default:
		return r, nil
	}
}

// xzDict returns the size of the dictionary that the first block of an xz stream requires
// (xz-file-format.txt, 3.1 and 5.3.1), or 0 if it is invalid. The decoder allocates a dictionary of
// any size, so the caller checks the size first.
func xzDict(stream []byte) int64 {
	const header, sizes, filter = 12, 0xc0, 0x21
	if len(stream) < header+5 || stream[header+1]&sizes != 0 || stream[header+2] != filter {
		return 0
	}
	bits := stream[header+4]
	if bits > 40 {
		return 0 // invalid: the decoder returns the error
	}
	return int64(2|bits&1) << (bits/2 + 11)
}

// limited is a reader that returns an error after a number of bytes, whereas io.LimitReader returns
// io.EOF. It also counts the zero bytes at the end of the data that was read.
type limited struct {
	r     io.Reader
	left  int64
	zeros int
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(b)) > l.left {
		b = b[:l.left]
	}
	n, err := l.r.Read(b)
	l.left -= int64(n)
	if tail := len(bytes.TrimRight(b[:n], "\x00")); tail > 0 {
		l.zeros = n - tail
	} else {
		l.zeros += n
	}
	return n, err
}

type builder struct {
	fs    memFS
	hard  []hardLink // resolved at the end
	count int
	kept  int64
}

// hardLink is a hard link of an archive. Its target comes earlier in the archive, and may itself be
// a link.
type hardLink struct{ name, target string }

func (b *builder) add(h *tar.Header, content io.Reader) error {
	if b.count++; b.count > maxEntries {
		return fmt.Errorf("more than %d entries: want an archive of only the folder sys/", maxEntries)
	}
	name, err := cleanName(h.Name)
	if err != nil || name == "." {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		_, err = b.folder(name)
		return err
	case tar.TypeReg:
		return b.file(name, content)
	case tar.TypeSymlink:
		return b.put(name, &node{name: path.Base(name), mode: fs.ModeSymlink | 0o444, target: h.Linkname})
	case tar.TypeLink:
		target, err := cleanName(h.Linkname)
		b.hard = append(b.hard, hardLink{name, target})
		return err
	default:
		return nil // sysfs has no devices, pipes or other special files
	}
}

// cleanName returns a name inside the archive, without a slash at its beginning. It refuses names
// that lead outside, that are too long or that contain a zero byte.
func cleanName(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case len(name) > maxPath:
		return "", fmt.Errorf("name %.80q: %d bytes: want at most %d", name, len(name), maxPath)
	case strings.Contains(name, "\x00"):
		return "", fmt.Errorf("name %.80q: want a name without a zero byte", name)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", fmt.Errorf("name %.80q: want a path inside the archive", name)
	}
	return clean, nil
}

// folder returns the folder at name. It creates the folder and its parents if they do not exist.
func (b *builder) folder(name string) (*node, error) {
	here := b.fs.root
	if name == "." {
		return here, nil
	}
	for step := range strings.SplitSeq(name, "/") {
		next := here.children[step]
		if next == nil {
			next = newFolder(step)
			here.children[step] = next
		}
		if !next.IsDir() {
			return nil, fmt.Errorf("name %.80q: %q in this path is not a folder", name, step)
		}
		here = next
	}
	return here, nil
}

func (b *builder) put(name string, n *node) error {
	parent, err := b.folder(path.Dir(name))
	if err != nil {
		return err
	}
	if old := parent.children[n.name]; old != nil && old.IsDir() {
		return fmt.Errorf("name %.80q: a folder and a file have this name", name)
	}
	parent.children[n.name] = n
	return nil
}

// file adds a file with at most maxFile bytes of its content. No attribute is that large, so the
// package that reads the capture then returns an error about the size.
func (b *builder) file(name string, content io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(content, maxFile))
	if err != nil {
		return err
	}
	if b.kept += int64(len(data)); b.kept > maxKept {
		return fmt.Errorf("the files have more than %d MiB in total: want an archive of only the folder sys/", maxKept>>20)
	}
	return b.put(name, &node{name: path.Base(name), mode: 0o444, data: data})
}

// finish replaces hard links with their targets, and returns the tree.
func (b *builder) finish() (memFS, error) {
	for _, l := range b.hard {
		n, err := b.fs.walk(l.target, true)
		if err != nil || n.IsDir() {
			return memFS{}, fmt.Errorf("hard link %.80q: the target %.80q is not a file of the archive", l.name, l.target)
		}
		if err := b.put(l.name, &node{name: path.Base(l.name), mode: n.mode, data: n.data}); err != nil {
			return memFS{}, err
		}
	}
	return b.fs, nil
}
