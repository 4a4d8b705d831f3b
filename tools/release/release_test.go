package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// made writes all files of a release without a compiler. A file of a few bytes stands in for each
// command. For the inventory, the test program stands in, because it has a list of modules.
func made(t *testing.T) *release {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{
		source: filepath.Join("..", ".."), out: t.TempDir(), version: "v0.1.0", commit: "abc", url: "https://files.example/b/",
		time: time.Unix(1_700_000_000, 0).UTC(), platforms: known, progress: io.Discard,
		kubes: []kube{{minor: "1.36", version: "v1.36.3", modfile: "x"}, {minor: "1.37", version: "v1.37.2"}},
	}
	small := filepath.Join(t.TempDir(), "command")
	spoil(t, small, []byte("a command"))
	for _, step := range []struct {
		do   func([]binary) error
		path string
	}{{r.archives, small}, {r.images, small}, {r.inventory, self}} {
		if err := step.do(r.standIns(step.path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.krew(); err != nil {
		t.Fatal(err)
	}
	if err := r.provenance(); err != nil {
		t.Fatal(err)
	}
	if err := writeSums(r.out); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *release) standIns(path string) (all []binary) {
	for _, p := range known {
		for _, c := range commandsOf(p) {
			for _, k := range r.kubesFor(c) {
				all = append(all, binary{c, p, path, k})
			}
		}
	}
	return all
}

func TestEqualSourcesGiveEqualFiles(t *testing.T) {
	a := made(t)
	b := made(t)
	one, err := os.ReadFile(filepath.Join(a.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(filepath.Join(b.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Errorf("two builds differ:\n%s\n%s", one, two)
	}
	if got := strings.Count(string(one), "\n"); got != 12 {
		t.Errorf("%d files, want 4 archives, 5 images, 1 inventory, 1 manifest, 1 provenance:\n%s", got, one)
	}
}

// TestEveryCommandIsReleased: a release has all commands except the demo, which contains the
// kubelet and a control plane and is built where it runs.
func TestEveryCommandIsReleased(t *testing.T) {
	dirs, err := os.ReadDir(filepath.Join("..", "..", "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, d := range dirs {
		if d.Name() != "berth-demo" {
			want = append(want, d.Name())
		}
	}
	if got := commandsOf(platform{os: "linux"}); !slices.Equal(got, want) {
		t.Errorf("a release has %q, cmd has %q", got, want)
	}
	for _, c := range want {
		if users[c] == "" {
			t.Errorf("no user runs image %s: it would be root", c)
		}
	}
}

func TestNoImagesWithoutLinux(t *testing.T) {
	r := &release{out: t.TempDir(), version: "v0.1.0", progress: io.Discard}
	if err := r.images([]binary{{command: "berth", platform: platform{"darwin", "arm64"}, path: "/nonexistent"}}); err != nil {
		t.Fatal(err)
	}
	if names, err := filesIn(r.out); err != nil || len(names) > 0 {
		t.Errorf("%q, %v: want no image", names, err)
	}
}

func TestVerifyWholeRelease(t *testing.T) {
	r := made(t)
	if n, err := verify(r.out, ""); err != nil || n != 12 {
		t.Errorf("%d files, %v", n, err)
	}
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	image := "berth-agent-v0.1.0.oci.tar"
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"cut short", func(t *testing.T, dir string) { cut(t, filepath.Join(dir, image), 2) }, image + ": the archive is incomplete"},
		{"empty", func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, image), nil) }, image + ": the archive is incomplete"},
		{"no archive", func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, image), make([]byte, 4096)) }, image},
		{"no tar", func(t *testing.T, dir string) {
			spoil(t, filepath.Join(dir, image), []byte(strings.Repeat("x", 2000)))
		}, "want an OCI archive"},
		{"climbs out", func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, image), climber(t)) }, "escapes"},
		{"another inventory", func(t *testing.T, dir string) { cut(t, filepath.Join(dir, "berth-v0.1.0.cdx.json"), 2) }, "as SHA256SUMS lists"},
		{"a file too many", func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, "extra"), nil) }, "extra is not listed"},
		{"a file too few", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "berth-v0.1.0.cdx.json")) }, "no such file"},
		{"no sums", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, sumsFile)) }, "want the folder of a release"},
		{"empty sums", func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, sumsFile), nil) }, "SHA256SUMS: empty"},
		{"garbled sums", func(t *testing.T, dir string) { spoil(t, filepath.Join(dir, sumsFile), []byte("abc  x\n")) }, "SHA256SUMS:1"},
		{"sums of elsewhere", func(t *testing.T, dir string) {
			spoil(t, filepath.Join(dir, sumsFile), []byte(strings.Repeat("0", 64)+"  ../x\n"))
		}, "SHA256SUMS:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := made(t)
			tc.spoil(t, r.out)
			_, err := verify(r.out, "")
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one sentence with %q", err, tc.want)
			}
		})
	}
}

func cut(t *testing.T, path string, parts int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, path, data[:len(data)/parts])
}

func spoil(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// climber returns a tar with a file outside its folder.
func climber(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "../../x", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPush copies the images to a registry and reads them back as a node would.
func TestPush(t *testing.T) {
	r := made(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to := target{strings.TrimPrefix(server.URL, "http://") + "/berth/", true}
	var out strings.Builder
	if err := push(context.Background(), r.out, to, &out); err != nil {
		t.Fatal(err)
	}
	tags := map[string][]string{"berth-scheduler": {"v0.1.0-k8s1.36", "v0.1.0-k8s1.37"}}
	for image, want := range users {
		if tags[image] == nil {
			tags[image] = []string{"v0.1.0"}
		}
		for _, tag := range tags[image] {
			for _, arch := range []string{"amd64", "arm64"} {
				got := pulled(t, to, image+":"+tag, arch)
				config, err := got.ConfigFile()
				if err != nil {
					t.Fatal(err)
				}
				if config.Config.User != want || !slices.Equal(config.Config.Entrypoint, []string{"/" + image}) || config.Architecture != arch ||
					config.Config.Labels["org.opencontainers.image.version"] != tag {
					t.Errorf("%s:%s for %s: %+v", image, tag, arch, config)
				}
				if names := filesOfImage(t, got); !slices.Equal(names, []string{image}) {
					t.Errorf("%s:%s for %s holds %q", image, tag, arch, names)
				}
			}
			if !strings.Contains(out.String(), "/berth/"+image+":"+tag+"@sha256:") {
				t.Errorf("%s:%s: no digest in %q", image, tag, out.String())
			}
		}
	}
	if got := strings.Count(out.String(), "\n"); got != 5 {
		t.Errorf("%d images were pushed, want 5:\n%s", got, out.String())
	}
}

func pulled(t *testing.T, from target, image, arch string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(from.repository+image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func filesOfImage(t *testing.T, image v1.Image) (names []string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		in := tar.NewReader(content)
		for h, err := in.Next(); err == nil; h, err = in.Next() {
			names = append(names, h.Name)
		}
	}
	return names
}

// TestImagesHaveNames: an image that a node imports without a registry has the name in the chart.
func TestImagesHaveNames(t *testing.T) {
	r := made(t)
	for image, tag := range map[string]string{"berth-agent": "v0.1.0", "berth-scheduler": "v0.1.0-k8s1.36"} {
		dir := t.TempDir()
		if err := unpack(filepath.Join(r.out, image+"-"+tag+".oci.tar"), dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"org.opencontainers.image.ref.name": "` + tag + `"`, `"io.containerd.image.name": "localhost/berth/` + image + ":" + tag + `"`} {
			if !strings.Contains(strings.ReplaceAll(string(text), `":"`, `": "`), want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	}
}

func TestPushOfWhatIsNotWhole(t *testing.T) {
	r := made(t)
	cut(t, filepath.Join(r.out, "berth-agent-v0.1.0.oci.tar"), 3)
	err := push(context.Background(), r.out, target{"127.0.0.1:1/berth", true}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "is incomplete") {
		t.Errorf("%v: want an error about an incomplete archive before anything is sent", err)
	}
}

func TestInventory(t *testing.T) {
	r := made(t)
	file, err := os.Open(filepath.Join(r.out, "berth-v0.1.0.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	refs := map[string]int{}
	for _, c := range *bom.Components {
		refs[c.BOMRef]++
	}
	for ref, n := range refs {
		if n != 1 {
			t.Errorf("%s occurs %d times", ref, n)
		}
	}
	if refs["berth-scheduler-k8s1.36-linux-arm64"] != 1 || refs["berth-scheduler-k8s1.37-linux-arm64"] != 1 || refs["berth-darwin-amd64"] != 1 {
		t.Errorf("no binaries in %v", refs)
	}
	used := 0
	for _, d := range *bom.Dependencies {
		for _, ref := range *d.Dependencies {
			if used++; refs[ref] != 1 {
				t.Errorf("%s uses %s, which is not listed", d.Ref, ref)
			}
		}
	}
	if used == 0 {
		t.Error("no binary uses anything")
	}
}

func TestBadFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"", "want one of build, sign, verify, push"},
		{"make", "want one of build, sign, verify, push"},
		{"build", "-version"},
		{"build -version 0.1.0", "want a version like v0.1.0"},
		{"build -version v0.1.0", "-out"},
		{"build -version v0.1.0 -out x -source /nonexistent", "want the root of Berth's sources"},
		{"build -version v0.1.0 -out x -url releases.example", "want the URL of the releases"},
		{"build -version v0.1.0 -out x -url https://a.example/?x=1", "want the URL of the releases"},
		{"build -platforms linux/mips", "want some of"},
		{"build -platforms linux/amd64,linux/amd64", "each once"},
		{"build x", "want exactly 0"},
		{"verify", "want exactly 1"},
		{"push x", "-to: want the registry"},
	} {
		err := run(context.Background(), strings.Fields(tc.args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.args, err, tc.want)
		}
	}
}

// TestNothingOfTheBuilderGetsIn: the build sets every variable that the Go command would otherwise
// read from its environment or from go.env.
func TestNothingOfTheBuilderGetsIn(t *testing.T) {
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOEXPERIMENT", "greenteagc")
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("GOAMD64=v4\nGOARM64=v9.0\nGOFLAGS=-race\nGOFIPS140=latest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", file)
	cmd := exec.CommandContext(t.Context(), "go", "env", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFLAGS", "GOFIPS140", "CGO_ENABLED")
	cmd.Env = append(os.Environ(), buildEnv(platform{os: "linux", arch: "amd64"})...)
	out, err := cmd.CombinedOutput()
	if want := "v1\nv8.0\n\n\noff\n0\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}
