package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
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
	"k8s.io/client-go/util/flowcontrol"

	"github.com/berth-dev/berth/internal/bounded"
)

// The limits of the caches for the API server's answers, and of the rate of requests.
const (
	reviewLasts = time.Minute
	reviewLimit = 5 * time.Second
	// unseenLasts is the time for which a refusal for one namespace is cached. It is long because,
	// in a cluster with many namespaces, most users may list pods only in a few of them.
	unseenLasts   = 5 * time.Minute
	maxReviews    = 4096
	maxTokenBytes = 16 << 10
	// reviewQPS and reviewBurst limit the rate of each kind of review. The limits for reviews of
	// namespaces are ten times as high.
	reviewQPS   = 20
	reviewBurst = 100
	// failureLasts is the time after which a failed request to the API server may be repeated.
	failureLasts = 5 * time.Second
	// refusalLasts is the time for which the refusal of a token is cached.
	refusalLasts = 10 * time.Second
	// strangerQPS and strangerBurst limit the reviews of unknown tokens per address, so that a
	// sender of invalid tokens cannot use up the reviews of all users. maxStrangers is the maximum
	// number of addresses with a limit.
	strangerQPS   = 2
	strangerBurst = 20
	maxStrangers  = 1024
)

// reviews is a Gate that asks the API server which user a token belongs to, and which namespaces
// the user may see. It reads the token from the header Authorization, and ignores headers in which
// a proxy names the user.
type reviews struct {
	tokens authenticationclient.TokenReviewInterface
	// entry is the client for reviews that ask whether a user may see the map. The field access is
	// the client for reviews that ask which namespaces the user may see in it. Each client has its
	// own rate limit. A user who may see only some of many namespaces causes a review for each
	// namespace, and these must not delay the entry of other users.
	entry, access authorizationclient.AuthorizationV1Interface
	now           func() time.Time

	mu sync.Mutex
	// viewers has the users of the tokens that the API server accepted in their last review. The
	// limit per address does not apply to further reviews of these tokens, because behind an
	// ingress all users have the same address.
	viewers bounded.Map[tokenSum, *reviewed]
	// refused has the tokens that the API server refused. With this cache, a client that sends a
	// refused token repeatedly, for example from an open page, does not use up the limit of its
	// address.
	refused bounded.Map[tokenSum, refusal]
	// strangers are the rate limits for unknown tokens, by address.
	strangers bounded.Map[string, flowcontrol.PassiveRateLimiter]
}

type tokenSum = [sha256.Size]byte

// Reviews returns a Gate that uses the cluster's TokenReview and SubjectAccessReview.
func Reviews(config *rest.Config) (Gate, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.Timeout = reviewQPS, reviewBurst, reviewLimit
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	tokens, err := authenticationclient.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	entry, err := authorizationclient.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = 10*reviewQPS, 10*reviewBurst
	access, err := authorizationclient.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	g := newReviews(time.Now)
	g.tokens, g.entry, g.access = tokens.TokenReviews(), entry, access
	return g, nil
}

func newReviews(now func() time.Time) *reviews {
	return &reviews{now: now, viewers: bounded.New[tokenSum, *reviewed](maxReviews), refused: bounded.New[tokenSum, refusal](maxReviews),
		strangers: bounded.New[string, flowcontrol.PassiveRateLimiter](maxStrangers)}
}

type refusal struct {
	said  *failure
	until time.Time
}

// reviewed caches the API server's answer about a user.
type reviewed struct {
	gate  *reviews
	user  authenticationv1.UserInfo
	until time.Time

	mu   sync.Mutex
	sees map[string]seen // by namespace; "" means all namespaces
}

// seen is the API server's last answer about a namespace. The field failed means that the request
// failed.
type seen struct {
	allowed, failed bool
	at              time.Time
}

// Admit admits users whose token the API server accepts and who may list NodeTopologies.
func (g *reviews) Admit(r *http.Request) (Viewer, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(token) > maxTokenBytes {
		return nil, &failure{http.StatusUnauthorized, "this map shows only what you may see: give it a token"}
	}
	key := sha256.Sum256([]byte(token))
	before := g.latest(key)
	if before != nil && g.now().Before(before.until) {
		return before, nil
	}
	if said := g.refusal(key); said != nil {
		return nil, said
	}
	if before == nil && !g.mayAsk(r.RemoteAddr) {
		return nil, &failure{http.StatusTooManyRequests, "too many tokens come from your address: try again in a moment"}
	}
	v, err := g.review(r.Context(), token)
	if err == nil && before != nil {
		v.sees = before.unseen()
	}
	g.note(key, v, err)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// latest returns the last known user of a token, even if the answer is old. It returns nil if there
// is none.
func (g *reviews) latest(key tokenSum) *reviewed {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, _ := g.viewers.Get(key)
	return v
}

// note records the result of a review. It changes nothing if the API server did not answer.
func (g *reviews) note(key tokenSum, v *reviewed, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if said := new(failure); errors.As(err, &said) && said.status != http.StatusServiceUnavailable {
			g.viewers.Delete(key)
			g.refused.Set(key, refusal{said, g.now().Add(refusalLasts)})
		}
		return
	}
	g.viewers.Set(key, v)
}

// mayAsk reports whether one more token from the given address may be reviewed.
func (g *reviews) mayAsk(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	limit, known := g.strangers.Get(host)
	if !known {
		limit = flowcontrol.NewTokenBucketPassiveRateLimiter(strangerQPS, strangerBurst)
		g.strangers.Set(host, limit)
	}
	return limit.TryAccept()
}

// refusal returns the recent refusal of a token, or nil if there is none.
func (g *reviews) refusal(key tokenSum) *failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.refused.Get(key); ok && g.now().Before(r.until) {
		return r.said
	}
	g.refused.Delete(key)
	return nil
}

// review asks the API server which user the token belongs to.
func (g *reviews) review(ctx context.Context, token string) (*reviewed, error) {
	out, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, &failure{http.StatusServiceUnavailable, "the API server does not tell whose token this is: " + err.Error()}
	case !out.Status.Authenticated || out.Status.User.Username == "":
		return nil, &failure{http.StatusUnauthorized, "the API server does not know this token; it may have expired"}
	}
	v := &reviewed{gate: g, user: out.Status.User, until: g.now().Add(reviewLasts), sees: map[string]seen{}}
	allowed, err := v.may(ctx, g.entry, &authorizationv1.ResourceAttributes{Group: "berth.dev", Resource: "nodetopologies", Verb: "list"})
	switch {
	case err != nil:
		return nil, &failure{http.StatusServiceUnavailable, "cannot check what " + v.user.Username + " is allowed to see: " + err.Error()}
	case !allowed:
		return nil, &failure{http.StatusForbidden, v.user.Username + " may not list nodetopologies.berth.dev: bind the ClusterRole berth-viewer"}
	}
	return v, nil
}

// The result of may is the API server's answer whether the user may carry out an action.
func (v *reviewed) may(ctx context.Context, by authorizationclient.AuthorizationV1Interface, what *authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range v.user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	out, err := by.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: what, User: v.user.Username, UID: v.user.UID, Groups: v.user.Groups, Extra: extra,
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return out.Status.Allowed, nil
}

// Name returns the user's name.
func (v *reviewed) Name() string { return v.user.Username }

// Sees reports whether the user may list the pods of a namespace. It asks the API server only if it
// has no recent answer.
func (v *reviewed) Sees(namespace string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked(metav1.NamespaceAll) || namespace != metav1.NamespaceAll && v.asked(namespace)
}

// unseen returns the namespaces that the user is not allowed to see, according to recent answers of
// the API server.
func (v *reviewed) unseen() map[string]seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := map[string]seen{}
	for namespace, said := range v.sees {
		if namespace != metav1.NamespaceAll && !said.allowed && !said.failed && v.gate.now().Sub(said.at) < unseenLasts {
			out[namespace] = said
		}
	}
	return out
}

// The method asked returns the API server's answer about a namespace. It asks if there is no recent
// answer, and returns false if the request fails.
func (v *reviewed) asked(namespace string) bool {
	said, known := v.sees[namespace]
	if known && (!said.failed || v.gate.now().Sub(said.at) < failureLasts) {
		return said.allowed
	}
	ctx, cancel := context.WithTimeout(context.Background(), reviewLimit)
	defer cancel()
	allowed, err := v.may(ctx, v.gate.access, &authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "pods", Verb: "list"})
	v.sees[namespace] = seen{allowed: allowed, failed: err != nil, at: v.gate.now()}
	return allowed
}
