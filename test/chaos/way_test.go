package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/test/wrongclock"
)

// TestStorageLine sends bytes through a line without faults, a late line, and a cut line.
func TestStorageLine(t *testing.T) {
	dir := t.TempDir()
	echo, err := net.Listen("unix", filepath.Join(dir, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	s, err := newStorageLine(filepath.Join(dir, "line"), filepath.Join(dir, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c, err := net.Dial("unix", filepath.Join(dir, "line"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, fault := range []Kind{"", Late} {
		s.set(fault)
		begun := time.Now()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); fault == Late && took < 2*slowness {
			t.Errorf("%q: %v there and back, want %v or more", fault, took, 2*slowness)
		}
	}
	s.cut()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes from a line that was cut", n)
	}
	if s.hits() != 3 {
		t.Errorf("%d hits, want 3: two late, one cut", s.hits())
	}
}

// TestFrauds checks how each fraud changes a Binding or a watch.
func TestFrauds(t *testing.T) {
	const honest = `x"cpus":"2-3"y"cpus":"9"z`
	arrived := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- string(body)
	}))
	defer server.Close()
	for f, want := range map[fraud]string{"": honest, fraudPromise: `x"cpus":"3-3"y"cpus":"0"z`, fraudOrder: honest, fraudDeaf: honest} {
		l, err := newClientLine(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		l.fraud = f
		resp, err := http.Post("http://"+l.Addr()+"/api/v1/namespaces/default/pods/p/binding", "text/plain", strings.NewReader(honest))
		if err != nil {
			t.Fatalf("%q: %v", f, err)
		}
		resp.Body.Close()
		if got := <-arrived; got != want {
			t.Errorf("%q: %s has arrived, want %s", f, got, want)
		}
	}
	l, err := newClientLine(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.fraud = fraudDeaf
	hasty := http.Client{Timeout: 50 * time.Millisecond}
	if resp, err := hasty.Get("http://" + l.Addr() + "/apis/berth.dev/v1alpha1/nodetopologies?watch=true"); err == nil {
		resp.Body.Close()
		t.Error("a watch of reports was answered")
	}
	if len(arrived) > 0 {
		t.Error("a watch of reports has arrived")
	}
}

func TestParseFraud(t *testing.T) {
	for _, f := range append([]fraud{""}, frauds...) {
		if got, err := parseFraud(string(f)); err != nil || got != f {
			t.Errorf("%q: %q, %v", f, got, err)
		}
	}
	if _, err := parseFraud("nothing"); err == nil || !strings.Contains(err.Error(), "promise") {
		t.Errorf("want an error that names the choices, got %v", err)
	}
}

// TestJump: jumps of one clock add up.
func TestJump(t *testing.T) {
	c := &cluster{dir: t.TempDir()}
	p := &process{name: "agent-n0"}
	for _, by := range []time.Duration{time.Hour, -20 * time.Minute} {
		if err := c.jump(p, by); err != nil {
			t.Fatal(err)
		}
	}
	w := wrongclock.Follow(wrongclock.File(c.dir, p.name))
	if off := time.Until(w.Now()) - 40*time.Minute; off < -time.Second || off > time.Second {
		t.Errorf("off by %v from 40m", off)
	}
}
