package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/apiclient"
)

// API implements Source with an API server.
type API struct {
	Options
	core   coreclient.CoreV1Interface
	leases coordinationclient.CoordinationV1Interface
	// reports is the client for the group berth.dev.
	reports rest.Interface
	// coarse are the clients for the kinds of reports that have only amounts, in the order of
	// apiclient.CoarseKinds.
	coarse []rest.Interface
	// reservations is the client for Koordinator's group.
	reservations rest.Interface
	clock        serverClock
	classes      Recent[classList]
	handed       Recent[HandedOut]
}

type classList struct {
	resources map[corev1.ResourceName]bool
	notes     []string
}

// The client's own limits: the average number of requests per second, and the size of a burst. The
// API server has further limits.
const (
	clientQPS   = 50
	clientBurst = 100
)

// Connect prepares to read an API server. It sends no request yet.
func Connect(o Options) (*API, error) {
	a := &API{Options: o}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = clientQPS, clientBurst
	config.Wrap(a.clock.listen)
	var err error
	if a.reports, err = apiclient.New(config); err != nil {
		return nil, err
	}
	if a.reservations, err = apiclient.Koordinator(config); err != nil {
		return nil, err
	}
	for i := range apiclient.CoarseKinds {
		client, err := apiclient.CoarseKinds[i].Client(config)
		if err != nil {
			return nil, err
		}
		a.coarse = append(a.coarse, client)
	}
	config = apiclient.Core(config)
	if a.core, err = coreclient.NewForConfig(config); err != nil {
		return nil, err
	}
	if a.leases, err = coordinationclient.NewForConfig(config); err != nil {
		return nil, err
	}
	return a, nil
}

// PodsIn implements Source.
func (a *API) PodsIn(ctx context.Context, namespace, only string) ([]corev1.Pod, error) {
	pods, err := a.listPods(ctx, namespace, named("metadata.name", only))
	if err != nil {
		return nil, a.failed("pods", err)
	}
	return pods, nil
}

func (a *API) listPods(ctx context.Context, namespace string, o metav1.ListOptions) ([]corev1.Pod, error) {
	return listed(ctx, a.core.Pods(namespace).List, func(l *corev1.PodList) []corev1.Pod { return l.Items }, o)
}

func listed[T any, L interface{ GetContinue() string }](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), items func(L) []T, o metav1.ListOptions) ([]T, error) {
	return pages(func(o metav1.ListOptions) ([]T, string, error) {
		l, err := list(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return items(l), l.GetContinue(), nil
	}, o)
}

// Pod implements Source.
func (a *API) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := a.core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, a.failed("pod "+namespace+"/"+name, err)
	}
	return pod, nil
}

// NodeNames implements Source.
func (a *API) NodeNames(ctx context.Context) ([]string, error) {
	nodes, err := a.nodeObjects(ctx, "")
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	return names, err
}

func (a *API) nodeObjects(ctx context.Context, only string) ([]corev1.Node, error) {
	return listed(ctx, a.core.Nodes().List, func(l *corev1.NodeList) []corev1.Node { return l.Items }, named("metadata.name", only))
}

// Namespaces implements Source.
func (a *API) Namespaces(ctx context.Context) ([]string, error) {
	l, err := a.core.Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(l.Items))
	for i := range l.Items {
		names[i] = l.Items[i].Name
	}
	return names, nil
}

// Budgets implements Source.
func (a *API) Budgets(ctx context.Context) ([]policyv1.PodDisruptionBudget, error) {
	return readAll[policyv1.PodDisruptionBudget](ctx, a, metav1.ListOptions{}, policyv1.SchemeGroupVersion.String(), "poddisruptionbudgets")
}

// PriorityClasses implements Source.
func (a *API) PriorityClasses(ctx context.Context) ([]PriorityClass, error) {
	return readAll[PriorityClass](ctx, a, metav1.ListOptions{}, "scheduling.k8s.io/v1", "priorityclasses")
}

// DeviceClasses implements Source. It caches the list for a short time, because the web page
// requests the list for each pod.
func (a *API) DeviceClasses(ctx context.Context) (map[corev1.ResourceName]bool, []string, error) {
	list, err := a.classes.Get(func() (*classList, error) { return a.listClasses(ctx) })
	if err != nil {
		return nil, nil, err
	}
	return list.resources, list.notes, nil
}

func (a *API) listClasses(ctx context.Context) (*classList, error) {
	classes, err := resources[resourcev1.DeviceClass](ctx, a, "deviceclasses")
	out := &classList{}
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	out.resources = resourcesOf(classes)
	out.notes, err = a.tolerate("device classes", "resources that only Dynamic Resource Allocation provides count as missing", err)
	return out, err
}

func resourcesOf(classes []*resourcev1.DeviceClass) map[corev1.ResourceName]bool {
	out := map[corev1.ResourceName]bool{}
	for _, class := range classes {
		out[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class.Name)] = true
		if name := class.Spec.ExtendedResourceName; name != nil {
			out[corev1.ResourceName(*name)] = true
		}
	}
	return out
}

// tolerate handles the error of a list. If the user may not read the list, it returns a note about
// the consequence. It returns all other errors.
func (a *API) tolerate(what, then string, err error) (note []string, rest error) {
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsForbidden(err):
		return []string{fmt.Sprintf("no permission to read %s, so %s: %v", what, then, err)}, nil
	}
	return nil, a.failed(what, err)
}

// Now implements Source.
func (a *API) Now() time.Time { return a.clock.now() }

// VolumeClaim returns a PersistentVolumeClaim.
func (a *API) VolumeClaim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return a.core.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Lease returns a Lease.
func (a *API) Lease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	return a.leases.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Events returns the events about a pod.
func (a *API) Events(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, error) {
	list, err := a.core.Events(pod.Namespace).List(ctx, named("involvedObject.uid", string(pod.UID)))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// failed wraps an error. It names the object that could not be read, or the cluster if the cluster
// cannot be reached or does not accept the credentials.
func (a *API) failed(what string, err error) error {
	var unreachable *url.Error
	switch {
	case errors.As(err, &unreachable):
		return fmt.Errorf("cannot reach the cluster at %s: %w", a.Where, unreachable.Err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s does not accept your credentials: %w", a.Where, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("reading %s: %w (the ClusterRole berth-reader has every permission that is needed)", what, err)
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

const pageSize = 500

// pages reads a list page by page. If the next page is no longer available, pages reads the whole
// list in one request.
func pages[T any](list func(metav1.ListOptions) ([]T, string, error), opts metav1.ListOptions) ([]T, error) {
	var read [][]T // pages are joined only at the end, because pods are large
	opts.Limit = pageSize
	for {
		items, next, err := list(opts)
		if apierrors.IsResourceExpired(err) && opts.Continue != "" {
			opts.Limit, opts.Continue = 0, ""
			all, _, err := list(opts)
			return all, err
		}
		if err != nil {
			return nil, err
		}
		read = append(read, items)
		if next == "" {
			return slices.Concat(read...), nil
		}
		opts.Continue = next
	}
}

// serverClock estimates the time by the API server's clock, which also sets the times in
// managedFields.
type serverClock struct{ last atomic.Pointer[lastAnswer] }

// lastAnswer is the time of the API server's last answer. The field `date` is by the API server's
// clock, and the field `at` by this machine's clock.
type lastAnswer struct{ date, at time.Time }

// now returns the time of the last answer, or this machine's time if there was no answer yet.
func (c *serverClock) now() time.Time {
	if last := c.last.Load(); last != nil {
		return last.date
	}
	return time.Now()
}

// running returns now plus the time since the last answer, without time in which this machine was
// suspended. Before the first answer, it returns the zero time.
func (c *serverClock) running() time.Time {
	if last := c.last.Load(); last != nil {
		return last.date.Add(time.Since(last.at))
	}
	return time.Time{}
}

func (c *serverClock) listen(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			if date, dateErr := http.ParseTime(answer.Header.Get("Date")); dateErr == nil {
				c.last.Store(&lastAnswer{date, time.Now()})
			}
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// readLasts is the time for which a list of unwatched objects is reused. In this time, all open web
// pages together cause one list request.
const readLasts = 2 * time.Second

// Recent caches a list of objects that are not watched.
type Recent[T any] struct {
	mu   sync.Mutex
	last *T
	at   time.Time
}

// Get returns the last list if it is not older than readLasts, and otherwise the result of read. If
// read fails, Get returns the last list if there is one.
func (r *Recent[T]) Get(read func() (*T, error)) (*T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && time.Since(r.at) < readLasts {
		return r.last, nil
	}
	now, err := read()
	if err != nil && r.last != nil {
		return r.last, nil // while the API server does not answer, the pods are as old as this list
	}
	if err != nil {
		return nil, err
	}
	r.last, r.at = now, time.Now()
	return now, nil
}

// readAll reads all pages of a list of a kind without a typed client. `path` begins with the kind's
// group and version.
func readAll[T any](ctx context.Context, a *API, o metav1.ListOptions, path ...string) ([]T, error) {
	return pages(func(o metav1.ListOptions) ([]T, string, error) {
		answer := a.reports.Get().AbsPath("/apis").Suffix(path...).VersionedParams(&o, metav1.ParameterCodec).Do(ctx)
		if err := answer.Error(); err != nil { // the error of answer.Raw has less detail
			return nil, "", err
		}
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []T             `json:"items"`
		}
		data, err := answer.Raw()
		if err == nil {
			err = json.Unmarshal(data, &page)
		}
		return page.Items, page.Metadata.Continue, err
	}, o)
}

// named returns options that select by a field, or select everything if the value is empty.
func named(field, value string) metav1.ListOptions {
	if value == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()}
}
