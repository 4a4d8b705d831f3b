package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/survey/query"
)

// The limits of one question about hypothetical pods.
const (
	maxManifest  = 256 << 10 // bytes
	maxTemplates = 10
	maxCopies    = 500 // the maximum number of copies counted on each node
	// maxFits is the maximum number of concurrent questions. Each question asks all nodes.
	maxFits = 2
	// bodyPatience is the maximum time until the manifest has arrived.
	bodyPatience = 10 * time.Second
	// answerPatience is the maximum time for one answer.
	answerPatience = 20 * time.Second
	// maxFitNodes is the maximum number of shown nodes that have room for a copy.
	maxFitNodes = 50
)

// fitPage is the answer to one question about hypothetical pods.
type fitPage struct {
	Pods  []fitOne `json:"pods"`
	Notes []string `json:"notes,omitempty"`
}

type fitOne struct {
	*query.Fitting
	// Taking is the number of nodes with room for a copy. Fitting.Nodes has at most maxFitNodes of
	// these nodes, the best first. After them, it has one refusing node for each different reason,
	// at most maxAnswers.
	Taking   int       `json:"taking"`
	Pictures []picture `json:"pictures,omitempty"`
}

// picture has the data with which the page draws a node and the copies on it.
type picture struct {
	Node   string               `json:"node"`
	SVG    string               `json:"svg"`
	Legend []machineview.Legend `json:"legend"`
	// New are the tags of the copies in the drawing.
	New []string `json:"new"`
}

// pictured returns the picture of a node without the names that the viewer is not allowed to see.
func pictured(p *query.Picture, v Viewer) picture {
	hideTenants(p.Berths, v)
	one := picture{Node: p.Node, New: []string{}}
	one.SVG, one.Legend = machineview.BerthsInline(p.Machine, p.Berths)
	for _, l := range one.Legend {
		if slices.ContainsFunc(p.Berths.Tenants, func(t machineview.Tenant) bool { return t.UID == l.UID && query.IsNew(t.Note) }) {
			one.New = append(one.New, l.Tag)
		}
	}
	return one
}

// question reads the hypothetical pods that the viewer asks about from the body of the request. The
// server does not store the pods. The content type must be YAML, so that pages of other sites
// cannot send a question. The caller must call done after the answer.
func (s *Server) question(r *http.Request) (pods *manifest.Pods, done func(), err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/yaml" {
		return nil, nil, &failure{http.StatusUnsupportedMediaType, "Content-Type " + quoted(r.Header.Get("Content-Type")) + ": want application/yaml"}
	}
	if pods, err = readWanted(r.Body); err != nil {
		return nil, nil, err
	}
	done, err = s.fits.take()
	return pods, done, err
}

// readWhole reads the body of a request before the request takes a slot, so that a slow sender does
// not block other requests. It reads at most one byte more than maxManifest, so that readWanted can
// detect a body that is too long.
func (s *Server) readWhole(w http.ResponseWriter, r *http.Request) error {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(s.patience)) // only connections of tests do not support deadlines
	body, err := io.ReadAll(io.LimitReader(r.Body, maxManifest+1))
	if err != nil { // the deadline stays, because the server reads the rest of the body before it answers
		w.Header().Set("Connection", "close")
		return &failure{http.StatusRequestTimeout, fmt.Sprintf("the body of the request did not arrive within %v: %v", s.patience, err)}
	}
	_ = c.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// The method asked reads the pods of a question and the nodes that should answer.
func (s *Server) asked(r *http.Request) (q asked, done func(), err error) {
	pods, done, err := s.question(r)
	if err != nil {
		return q, nil, err
	}
	q.wanted, q.notes = pods.Templates, pods.Notes
	values := r.URL.Query()
	setting, err := query.ParseSetting(values["set"])
	if err != nil {
		done()
		return q, nil, &failure{http.StatusBadRequest, "set=" + err.Error()}
	}
	setting.Empty = values.Get("empty") != ""
	q.options = query.FitOptions{Nodes: values["on"], Limit: maxCopies, Setting: setting, Templates: pods.Claims}
	return q, done, nil
}

// asked is a question about pods that do not exist.
type asked struct {
	wanted  []query.Wanted
	notes   []string
	options query.FitOptions
}

// fit returns, for each pod of a manifest, the nodes with room for it and the number of copies that
// fit.
func (s *Server) fit(r *http.Request, v Viewer) (any, error) {
	q, done, err := s.asked(r)
	if err != nil {
		return nil, err
	}
	defer done()
	q.options.Draw = true
	all, more, err := query.Fit(r.Context(), s.Live, q.wanted, q.options)
	if err != nil {
		return nil, s.unanswered(err)
	}
	out := fitPage{Notes: slices.Concat(q.notes, more, q.options.Setting.Notes())}
	for i := range all {
		out.Pods = append(out.Pods, shownFit(&all[i], v))
	}
	return out, nil
}

// compare returns how the pods of a manifest fit on the present nodes and on changed nodes.
func (s *Server) compare(r *http.Request, _ Viewer) (any, error) {
	q, done, err := s.asked(r)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := query.Compare(r.Context(), s.Live, q.wanted, q.options)
	if err != nil {
		return nil, s.unanswered(err)
	}
	out.Notes = slices.Concat(q.notes, out.Notes)
	return out, nil
}

// unanswered returns the error for a question that the server could not answer.
func (s *Server) unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &failure{http.StatusServiceUnavailable, fmt.Sprintf("no answer within %v: ask about fewer pods, or about only one node", s.answerPatience)}
	}
	return &failure{http.StatusBadRequest, err.Error()}
}

// podYAML returns an existing pod as YAML without its status, so that the user can ask about a copy
// of the pod.
func (s *Server) podYAML(r *http.Request, v Viewer) (any, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	pod := s.Live.Another(namespace, name)
	if pod == nil || !v.Sees(namespace) {
		return nil, missing("there is no pod " + namespace + "/" + name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	delete(fields["metadata"].(map[string]any), "creationTimestamp")
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return map[string]any{"yaml": string(text)}, nil
}

func readWanted(body io.Reader) (*manifest.Pods, error) {
	limited := &io.LimitedReader{R: body, N: maxManifest + 1}
	pods, err := manifest.Source{Paths: []string{"-"}, Stdin: limited}.Read()
	switch {
	case limited.N == 0:
		return nil, &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the YAML is larger than %d KiB: want only the pods that you ask about", maxManifest>>10)}
	case err != nil:
		return nil, &failure{http.StatusBadRequest, err.Error()}
	case len(pods.Templates) > maxTemplates:
		return nil, &failure{http.StatusBadRequest, fmt.Sprintf("%d pods and workloads: want at most %d at a time", len(pods.Templates), maxTemplates)}
	}
	return pods, nil
}

// shownFit returns the part of an answer that the page shows, without the names that the viewer is
// not allowed to see.
func shownFit(f *query.Fitting, v Viewer) fitOne {
	out := fitOne{Fitting: f}
	hideClaims(f.Claims, v)
	if !v.Sees(f.Namespace) {
		f.Claims = nil
	}
	var taking, others []query.NodeFit
	said := map[string]bool{}
	for _, n := range f.Nodes {
		hideHolders(&n.Answer, v)
		switch {
		case n.Copies > 0:
			taking = append(taking, n)
		case n.Refusal != nil && !said[n.Message] && len(others) < maxAnswers:
			said[n.Message] = true
			others = append(others, n)
		}
	}
	out.Taking = len(taking)
	f.Nodes = append(taking[:min(len(taking), maxFitNodes)], others...)
	for i := range f.Pictures {
		out.Pictures = append(out.Pictures, pictured(&f.Pictures[i], v))
	}
	return out
}
