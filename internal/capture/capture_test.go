package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ulikunitz/xz"
)

// entry is a header in a test archive, with its content.
type entry struct {
	name, content, link string
	kind                byte
}

func regular(name, content string) entry {
	return entry{name: name, content: content, kind: tar.TypeReg}
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.content)), Mode: 0o644}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compress(t testing.TB, how string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "gz":
		w = gzip.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	default:
		return data
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var machine = []entry{
	regular("./m/sys/devices/system/cpu/online", "0-1\n"),
	regular("m/sys/devices/pci0000:00/0000:00:01.0/class", "0x020000\n"),
	{name: "m/sys/bus/pci/devices/0000:00:01.0", kind: tar.TypeSymlink, link: "../../../devices/pci0000:00/0000:00:01.0"},
	{name: "m/sys/absolute", kind: tar.TypeSymlink, link: "/sys/devices/system/cpu"},
	{name: "m/sys/hard", kind: tar.TypeLink, link: "m/sys/devices/system/cpu/online"},
	{name: "m/sys/loop", kind: tar.TypeSymlink, link: "loop"},
	{name: "m/sys/out", kind: tar.TypeSymlink, link: "../../../../etc/passwd"},
	{name: "m/dev/null", kind: tar.TypeChar},
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenArchive(t *testing.T) {
	for _, how := range []string{"", "gz", "xz"} {
		c, err := Open(write(t, "a.tar."+how, compress(t, how, archive(t, machine...))))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"sys/devices/system/cpu/online":            "0-1\n",
			"sys/bus/pci/devices/0000:00:01.0/class":   "0x020000\n",
			"sys/absolute/online":                      "0-1\n",
			"sys/hard":                                 "0-1\n",
			"sys/devices/../devices/system/cpu/online": "!invalid argument",
			"sys/loop":   "!file does not exist",
			"sys/out":    "!file does not exist",
			"sys/absent": "!file does not exist",
		} {
			b, err := fs.ReadFile(c.FS, name)
			got := string(b)
			if err != nil {
				got = "!" + errors.Unwrap(err).Error()
			}
			if got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if target, err := fs.ReadLink(c.FS, "sys/bus/pci/devices/0000:00:01.0"); target != "../../../devices/pci0000:00/0000:00:01.0" {
			t.Errorf("link leads to %q, %v", target, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHardLinksToHardLinks: a hard link may point to an earlier hard link.
func TestHardLinksToHardLinks(t *testing.T) {
	entries, target := []entry{regular("sys/devices/system/cpu/online", "0")}, "sys/devices/system/cpu/online"
	for i := range 12 {
		name := "sys/link" + strconv.Itoa(i)
		entries = append(entries, entry{name: name, kind: tar.TypeLink, link: target})
		target = name
	}
	tree, err := readArchive(bytes.NewReader(archive(t, entries...)))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := fs.ReadFile(tree, target); string(b) != "0" {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestMemFSBehavesAsAFileSystem(t *testing.T) {
	tree, err := readArchive(bytes.NewReader(archive(t, machine[:3]...)))
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(tree, "m/sys/devices/system/cpu/online"); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	good := archive(t, machine...)
	zipped := compress(t, "gz", good)
	for _, c := range []struct {
		what string
		data []byte
		want string
	}{
		{"nothing", nil, "is empty"},
		{"no archive", []byte(strings.Repeat("no tar ", 200)), "invalid tar header"},
		{"truncated", zipped[:len(zipped)/2], "is incomplete"},
		{"truncated tar", good[:700], "is incomplete"},
		{"way out", archive(t, append(machine, regular("../x", ""))...), "want a path inside the archive"},
		{"hidden way out", archive(t, append(machine, regular("a/../../x", ""))...), "want a path inside the archive"},
		{"through a file", archive(t, append(machine, regular("m/sys/hard2", ""), regular("m/sys/hard2/x", ""))...), "is not a folder"},
		{"through a link", archive(t, append(machine, regular("m/sys/absolute/x", ""))...), "is not a folder"},
		{"file over folder", archive(t, append(machine, regular("m/sys", ""))...), "a folder and a file have this name"},
		{"hard link out", archive(t, append(machine, entry{name: "x", kind: tar.TypeLink, link: "../y"})...), "want a path inside the archive"},
		{"hard link to nothing", archive(t, append(machine, entry{name: "x", kind: tar.TypeLink, link: "y"})...), "is not a file of the archive"},
		{"no machine", archive(t, regular("a/b", "")), "no folder in it contains sys/devices/system/cpu"},
		{"two machines", archive(t, regular("a/sys/devices/system/cpu/online", ""), regular("b/sys/devices/system/cpu/online", "")), ": 2 machines: want one of them, as "},
		{"greedy xz", append([]byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x28"), make([]byte, 100)...), "a dictionary of 4096 MiB"},
	} {
		_, err := Open(write(t, "a.tgz", c.data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ...%s...", c.what, err, c.want)
		}
	}
}

func TestLimitedFailsRatherThanEnds(t *testing.T) {
	if _, err := io.ReadAll(&limited{r: strings.NewReader("12345678"), left: 4}); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestOpenOneMachineOfSeveral(t *testing.T) {
	name := write(t, "a.tar", archive(t, regular("a/sys/devices/system/cpu/online", "0"), regular("b/sys/devices/system/cpu/online", "1")))
	c, err := Open(name + ":b")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := fs.ReadFile(c.FS, "sys/devices/system/cpu/online"); string(b) != "1" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := Open(name + ":c"); err == nil {
		t.Error("a folder that is not there was opened")
	}
}

func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "want the folder that contains sys/") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "m/sys/devices/system/cpu"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "m/sys/out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "m"), dir + ":m"} {
		c, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fs.ReadDir(c.FS, "sys/out"); err == nil {
			t.Error("a link led out of the capture")
		}
		c.Close()
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestOpenRefusesDevices(t *testing.T) {
	if _, err := Open(os.DevNull); err == nil || !strings.Contains(err.Error(), "want a folder or an archive") {
		t.Errorf("got %v", err)
	}
}

func FuzzReadArchive(f *testing.F) {
	good := archive(f, machine...)
	f.Add(good)
	f.Add(compress(f, "gz", good))
	f.Add(compress(f, "xz", good))
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := readArchive(bytes.NewReader(data))
		if err != nil {
			return
		}
		_ = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
			if !fs.ValidPath(name) {
				t.Fatalf("a path %q", name)
			}
			return nil
		})
	})
}
