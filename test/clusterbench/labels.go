package main

import (
	"context"
	"net/http"
	"runtime/pprof"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// labelled labels the goroutines of a request, so that a CPU profile of the API server
// distinguishes requests (go tool pprof -tags). A goroutine inherits the labels of its creator.
func labelled(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pprof.Do(r.Context(), pprof.Labels("request", askedFor(r)), func(ctx context.Context) { h.ServeHTTP(w, r.WithContext(ctx)) })
	})
}

// askedFor returns verb, resource and subresource of a request ("patch pods/status"), or the verb
// alone for a request without a resource.
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
