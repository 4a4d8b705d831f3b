package vm

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
)

// Image is the name of the only container image, for sandboxes and workloads: busybox that waits
// for SIGTERM.
const Image = "localhost/berth/wait:1"

// waitScript ends at once on SIGTERM, which an init process otherwise ignores.
const waitScript = `trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done`

// imageArchive writes the image as a docker-archive, which ctr imports.
func imageArchive(busybox string) ([]byte, error) {
	prog, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	layer, err := tarball([]tarEntry{
		{name: "bin/", mode: 0o755}, {name: "tmp/", mode: 0o1777}, {name: "proc/", mode: 0o755}, {name: "sys/", mode: 0o755}, {name: "dev/", mode: 0o755}, {name: "etc/", mode: 0o755},
		{name: "bin/busybox", mode: 0o755, data: prog},
		{name: "bin/sh", link: "busybox"}, {name: "bin/sleep", link: "busybox"}, {name: "bin/cat", link: "busybox"},
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/bin/sh", "-c", waitScript}, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{Image}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return tarball([]tarEntry{
		{name: "config.json", mode: 0o644, data: config}, {name: "layer.tar", mode: 0o644, data: layer}, {name: "manifest.json", mode: 0o644, data: manifest},
	})
}

// tarEntry is a file, a symbolic link (link set) or a folder (name ends in a slash).
type tarEntry struct {
	name, link string
	mode       int64
	data       []byte
}

func tarball(entries []tarEntry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
		case e.name[len(e.name)-1] == '/':
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}
