package main

import (
	"context"
	"net/http"
	"runtime/pprof"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// labelled marks all that is done for a request with what it asks for, so that a CPU profile of the
// API server tells requests apart: go tool pprof -tags. A goroutine has the marks of the one that
// started it.
func labelled(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pprof.Do(r.Context(), pprof.Labels("request", askedFor(r)), func(ctx context.Context) { h.ServeHTTP(w, r.WithContext(ctx)) })
	})
}

// askedFor is verb, resource and subresource of a request: "patch pods/status"; for one that is not
// about a resource its verb alone.
func askedFor(r *http.Request) string {
	f := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := f.NewRequestInfo(r)
	switch {
	case err != nil:
		return r.Method
	case info.Subresource != "":
		return info.Verb + " " + info.Resource + "/" + info.Subresource
	case info.IsResourceRequest:
		return info.Verb + " " + info.Resource
	}
	return info.Verb
}
