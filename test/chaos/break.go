package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/test/line"
)

// A fraud makes the scheduler under test break promises on purpose, which proves that the suite can
// fail. It manipulates the scheduler's traffic with the API server, or uses kube-scheduler instead
// of Berth.
type fraud string

const (
	// fraudPromise: Bindings name other CPUs than the scheduler has decided.
	fraudPromise fraud = "promise"
	// fraudOrder: Bindings are answered with success at once, but written later and in random
	// order. So the scheduler decides about pods without knowing some earlier Bindings.
	fraudOrder fraud = "order"
	// fraudDeaf: after its start the scheduler receives no report, but still receives heartbeats.
	fraudDeaf fraud = "deaf"
	// fraudStock: the scheduler under test is kube-scheduler, which promises nothing and places
	// pods where kubelets refuse them.
	fraudStock fraud = "stock"
)

var frauds = []fraud{fraudPromise, fraudOrder, fraudDeaf, fraudStock}

// parseFraud reads the flag; "" is none.
func parseFraud(text string) (fraud, error) {
	if f := fraud(text); f == "" || slices.Contains(frauds, f) {
		return f, nil
	}
	return "", fmt.Errorf("-break %q: want one of %v", text, frauds)
}

// cheat reports whether the fraud has answered a request on the line.
func (f fraud) cheat(by *line.Line, out http.ResponseWriter, r *http.Request) bool {
	binding := line.BindingOf(r) != ""
	switch {
	case f == fraudPromise && binding:
		alter(r)
	case f == fraudOrder && binding:
		postpone(by, out, r)
		return true
	case f == fraudDeaf && line.IsWatch(r) && strings.HasSuffix(r.URL.Path, "/nodetopologies"):
		<-r.Context().Done()
		return true
	}
	return false
}

// alter changes the first digit of each list of CPUs. The replacement has the same length, so that
// it works in every encoding.
func alter(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	field := []byte(`"cpus":"`)
	for at := 0; ; {
		i := bytes.Index(body[at:], field)
		if i < 0 {
			break
		}
		at += i + len(field)
		body[at] = '0' + (body[at]-'0'+1)%10
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// maxDeferral is the largest delay of a Binding under fraudOrder.
const maxDeferral = 3 * time.Second

// postpone records that the Binding is written, and writes it later.
func postpone(by *line.Line, out http.ResponseWriter, r *http.Request) {
	later := by.CopyOf(r)
	if later == nil {
		line.Drop()
	}
	time.AfterFunc(rand.N(maxDeferral), func() { by.Send(later) })
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(http.StatusCreated)
	// A disconnected client does not read the answer, so the error is ignored.
	_, _ = io.WriteString(out, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)
}
