package sysfs

import (
	"bufio"
	"errors"
	"io/fs"
	"path"
	"strings"
)

// nvidiaDir is the folder in which NVIDIA's driver describes its GPUs: each GPU has a folder with
// its PCI address as the name, which contains a file "information".
const nvidiaDir = "proc/driver/nvidia/gpus"

// ReadNVIDIA maps the UUIDs of NVIDIA's GPUs ("GPU-9221d5d1-...") to their PCI addresses. NVIDIA's
// device plugin uses these UUIDs as ids. The root of fsys is the folder that contains proc/. On a
// live machine it is "/". Without the driver the map is empty. A GPU that the driver has not
// started has no UUID and is omitted. The error is a *Error.
func ReadNVIDIA(fsys fs.FS) (map[string]string, error) {
	t := tree{fsys}
	entries, err := fs.ReadDir(fsys, nvidiaDir)
	switch {
	case absent(err):
		return nil, nil
	case err != nil:
		return nil, &Error{Path: nvidiaDir, Field: "folder", Err: err}
	case len(entries) > maxEntries:
		return nil, &Error{Path: nvidiaDir, Field: "folder", Want: "a folder for each GPU", Err: errors.New("too many entries")}
	}
	addresses := map[string]string{}
	for _, e := range entries {
		name := path.Join(nvidiaDir, e.Name(), "information")
		text, ok, err := t.text(name)
		if err != nil {
			return nil, err
		}
		uuid := field(text, "GPU UUID")
		if !ok || !strings.HasPrefix(uuid, "GPU-") || strings.Contains(uuid, "?") {
			continue
		}
		if other, twice := addresses[uuid]; twice {
			return nil, &Error{Path: name, Field: "GPU UUID", Value: uuid, Want: "a UUID other than that of the GPU at " + other}
		}
		addresses[uuid] = strings.ToLower(e.Name())
	}
	return addresses, nil
}

// field returns the value of a line "NAME:   VALUE", "" if there is none.
func field(text, name string) string {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
