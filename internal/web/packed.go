package web

import (
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// packers has compressors for reuse, because each needs a quarter of a megabyte.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

// packed compresses answers for clients that accept compression.
func packed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		packer := packers.Get().(*gzip.Writer)
		defer packers.Put(packer)
		packer.Reset(w)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		next.ServeHTTP(&packing{w, packer}, r)
		_ = packer.Close()
	})
}

type packing struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (p *packing) Write(data []byte) (int, error) { return p.to.Write(data) }

// Unwrap supports http.ResponseController.
func (p *packing) Unwrap() http.ResponseWriter { return p.ResponseWriter }
