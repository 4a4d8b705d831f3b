package source

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// lostPatience is how long a watch may be interrupted before users are told. API servers end
// watches every few minutes, and informers restart them at once.
const lostPatience = 2 * time.Second

// Lost is a kind of object that cannot be watched now. Its data dates from the time Since.
type Lost struct {
	// Resource is its name in the API, like "pods".
	Resource string    `json:"resource"`
	Since    time.Time `json:"since"` // by the API server's clock
	// Why is the last error.
	Why string `json:"why"`
}

// contact tracks the watches for which the API server does not answer. Informers retry by
// themselves, and do not report refused connections.
type contact struct {
	now func() time.Time
	// swung receives a value when the watch of a resource fails, or works again.
	swung chan struct{}

	mu   sync.Mutex
	lost map[string]Lost // by resource
	// denied has, for each resource that may not be watched, the API server's first error.
	denied map[string]string
	// saidDenied are the denied resources in the last report to users, in ascending order.
	saidDenied []string
	// said lists the lost resources in the last report to users, in ascending order.
	said []Lost
}

func newContact(now func() time.Time) *contact {
	return &contact{now: now, swung: make(chan struct{}, 1), lost: map[string]Lost{}, denied: map[string]string{}}
}

// listening wraps the ListWatch of a resource, so that the contact hears the API server's answers
// to its requests.
func (c *contact) listening(resource string, to *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		DisableChunking: to.DisableChunking,
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := to.ListWithContext(ctx, o)
			if err != nil { // a successful list does not mean that the watch works
				c.heard(ctx, resource, err)
			}
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			out, err := to.WatchWithContext(ctx, o)
			if err == nil && reflect.TypeOf(out) == closed {
				c.heard(ctx, resource, errClosed)
			} else {
				c.heard(ctx, resource, err)
			}
			return out, err
		},
	}
}

// closed is the type of the watch that client-go returns, without an error, if the connection was
// closed or timed out before an answer (rest.Request.Watch).
var closed = reflect.TypeOf(watch.NewEmptyWatch())

var errClosed = errors.New("the connection was closed, or there was no answer in time")

// heard records the result of a request; `err` is nil if it succeeded.
func (c *contact) heard(ctx context.Context, resource string, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	denied, lost := c.deny(resource, err), c.lose(resource, err)
	if !denied && !lost {
		return
	}
	select {
	case c.swung <- struct{}{}:
	default:
	}
}

// deny records whether the resource may be watched, and reports whether this has changed.
func (c *contact) deny(resource string, err error) bool {
	was := c.denied[resource]
	switch {
	case err == nil:
		delete(c.denied, resource)
		return was != ""
	case apierrors.IsForbidden(err) && was == "":
		c.denied[resource] = err.Error()
		return true
	}
	return false
}

// lose records whether the API server answers requests about the resource, and reports whether this
// has changed.
func (c *contact) lose(resource string, err error) bool {
	was, lost := c.lost[resource]
	switch {
	case replied(err) && lost:
		delete(c.lost, resource)
	case replied(err):
		return false
	case lost:
		was.Why = why(err)
		c.lost[resource] = was
		return false
	default:
		c.lost[resource] = Lost{Resource: resource, Since: c.now(), Why: why(err)}
	}
	return true
}

// why returns the text of an error without the address of the request.
func why(err error) string {
	if asking := new(url.Error); errors.As(err, &asking) {
		return asking.Err.Error()
	}
	return err.Error()
}

// replied reports whether the API server answered the request itself: it accepted the request, or
// returned a 4xx error other than 401 and 429.
func replied(err error) bool {
	if err == nil {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// say returns the lost resources, which the caller reports to users. The result `news` reports
// whether they differ from the lost resources in the last report.
func (c *contact) say() (lost []Lost, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.said
	c.said = slices.SortedFunc(maps.Values(c.lost), func(a, b Lost) int { return cmp.Compare(a.Resource, b.Resource) })
	return c.said, !slices.EqualFunc(was, c.said, func(a, b Lost) bool { return a.Resource == b.Resource && a.Since.Equal(b.Since) })
}

// told returns the lost resources in the last report to users.
func (c *contact) told() []Lost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

// sayDenied returns notes about permissions to watch that were lost or granted since the last call.
func (c *contact) sayDenied() (notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := slices.Sorted(maps.Keys(c.denied))
	for _, resource := range now {
		if !slices.Contains(c.saidDenied, resource) {
			notes = append(notes, deniedWords(resource, c.denied[resource]))
		}
	}
	for _, resource := range c.saidDenied {
		if c.denied[resource] == "" {
			notes = append(notes, resource+" may be watched again")
		}
	}
	c.saidDenied = now
	return notes
}

func (c *contact) isDenied(resource string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied[resource] != ""
}

// deniedNotes returns a note for each resource that may not be watched now.
func (c *contact) deniedNotes() (notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range slices.Sorted(maps.Keys(c.denied)) {
		notes = append(notes, deniedWords(resource, c.denied[resource]))
	}
	return notes
}

func deniedWords(resource, why string) string {
	return "no permission to watch " + resource + ", so changes are seen late or not at all: " + why
}

func lostWords(lost []Lost) string {
	if len(lost) == 0 {
		return "the API server answers again"
	}
	var resources []string
	since := lost[0].Since
	for _, l := range lost {
		resources = append(resources, l.Resource)
		if l.Since.Before(since) {
			since = l.Since
		}
	}
	return "the API server does not answer, so these are shown as they were at " + since.UTC().Format(time.TimeOnly) + " UTC: " +
		strings.Join(resources, ", ") + " (" + lost[0].Why + ")"
}
