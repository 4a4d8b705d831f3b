package web

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// How long and how many answers of the API server are remembered, and how hard it is asked.
const (
	reviewLasts   = time.Minute
	reviewLimit   = 5 * time.Second
	maxReviews    = 4096
	maxTokenBytes = 16 << 10
	reviewQPS     = 20
	reviewBurst   = 100
)

// reviews is a Gate that asks the API server who a token belongs to, and what they may see. It
// believes no header but Authorization: what a proxy says of a user is not looked at.
type reviews struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	now    func() time.Time

	mu      sync.Mutex
	viewers map[[sha256.Size]byte]*reviewed
}

// Reviews makes a Gate of the cluster's own TokenReview and SubjectAccessReview.
func Reviews(config *rest.Config) (Gate, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.Timeout = reviewQPS, reviewBurst, reviewLimit
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	tokens, err := authenticationclient.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	access, err := authorizationclient.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return &reviews{tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(), now: time.Now, viewers: map[[sha256.Size]byte]*reviewed{}}, nil
}

// reviewed is a user whom the API server knows, until it is asked again.
type reviewed struct {
	gate  *reviews
	user  authenticationv1.UserInfo
	until time.Time

	mu   sync.Mutex
	sees map[string]bool // by namespace; "" stands for all
}

// Admit lets those in whose token the API server knows, and who may list NodeTopologies.
func (g *reviews) Admit(r *http.Request) (Viewer, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(token) > maxTokenBytes {
		return nil, &failure{http.StatusUnauthorized, "this map wants to know who asks: give it a token"}
	}
	key := sha256.Sum256([]byte(token))
	if v := g.remembered(key); v != nil {
		return v, nil
	}
	v, err := g.review(r.Context(), token)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.viewers) >= maxReviews {
		clear(g.viewers)
	}
	g.viewers[key] = v
	return v, nil
}

func (g *reviews) remembered(key [sha256.Size]byte) *reviewed {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.viewers[key]; v != nil && g.now().Before(v.until) {
		return v
	}
	delete(g.viewers, key)
	return nil
}

// review asks who the token belongs to.
func (g *reviews) review(ctx context.Context, token string) (*reviewed, error) {
	out, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, &failure{http.StatusServiceUnavailable, "the API server does not say who asks: " + err.Error()}
	case !out.Status.Authenticated || out.Status.User.Username == "":
		return nil, &failure{http.StatusUnauthorized, "the API server does not know this token; it may have expired"}
	}
	v := &reviewed{gate: g, user: out.Status.User, until: g.now().Add(reviewLasts), sees: map[string]bool{}}
	if !v.may(ctx, &authorizationv1.ResourceAttributes{Group: "berth.dev", Resource: "nodetopologies", Verb: "list"}) {
		return nil, &failure{http.StatusForbidden, v.user.Username + " may not list nodetopologies.berth.dev: bind the ClusterRole berth-viewer"}
	}
	return v, nil
}

// may asks whether the user may do something; no where nobody answers.
func (v *reviewed) may(ctx context.Context, what *authorizationv1.ResourceAttributes) bool {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range v.user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	out, err := v.gate.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: what, User: v.user.Username, UID: v.user.UID, Groups: v.user.Groups, Extra: extra,
	}}, metav1.CreateOptions{})
	return err == nil && out.Status.Allowed
}

// Name is the user's.
func (v *reviewed) Name() string { return v.user.Username }

// Sees says whether the user may list the pods of a namespace. It is asked once for each.
func (v *reviewed) Sees(namespace string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked(metav1.NamespaceAll) || namespace != metav1.NamespaceAll && v.asked(namespace)
}

// asked is what the API server said about a namespace.
func (v *reviewed) asked(namespace string) bool {
	sees, known := v.sees[namespace]
	if !known {
		ctx, cancel := context.WithTimeout(context.Background(), reviewLimit)
		defer cancel()
		sees = v.may(ctx, &authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "pods", Verb: "list"})
		v.sees[namespace] = sees
	}
	return sees
}
