package under

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

// agents replaces the agents of all nodes. It is an API server that serves only NodeTopologies, one
// for each existing Node, of kubelets that pin nothing.
type agents struct {
	spec wire.NodeSpec

	mu      sync.Mutex
	version int
	reports map[string]json.RawMessage
	told    []string
	news    chan struct{} // closed and replaced when there are new events
}

// startAgents returns the address of the server, which ends with ctx. It also creates the namespace
// of the scheduler's Lease.
func startAgents(ctx context.Context, client kubernetes.Interface) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		panic(err)
	}
	machine := shapes.Machine(shapes.Xeon6230)
	view, err := placement.ViewOf(machine)
	if err != nil {
		panic(err)
	}
	a := &agents{reports: map[string]json.RawMessage{}, news: make(chan struct{}), spec: wire.NodeSpec{
		Machine: machine, View: view, Config: placement.Config{CPUManagerPolicy: "none"}, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
	}}
	shared := informers.NewSharedInformerFactory(client, 0)
	nodes := shared.Core().V1().Nodes().Informer()
	if _, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.add(obj.(*corev1.Node).Name) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				a.remove(name)
			}
		},
	}); err != nil {
		panic(err)
	}
	server := httptest.NewServer(a)
	shared.Start(ctx.Done())
	context.AfterFunc(ctx, func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func (a *agents) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	report, err := wire.WriteNodeTopology(&wire.Node{Name: name, Spec: a.spec, Report: wire.Report{
		Sequence: int64(a.version), Observed: time.Now(),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent, LastTransitionTime: metav1.Now()}},
	}})
	if err != nil {
		panic(err)
	}
	report.UID, report.ResourceVersion = types.UID("report-"+name), fmt.Sprint(a.version)
	data, err := json.Marshal(report)
	if err != nil {
		panic(err)
	}
	a.reports[name] = data
	a.tell("ADDED", data)
}

func (a *agents) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if report, there := a.reports[name]; there {
		a.version++
		delete(a.reports, name)
		a.tell("DELETED", report)
	}
}

// tell sends an event to all watches. The caller holds the lock.
func (a *agents) tell(kind string, report json.RawMessage) {
	a.told = append(a.told, fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, report))
	close(a.news)
	a.news = make(chan struct{})
}

// ServeHTTP serves lists and watches. A list has version 0, so that the watch after it delivers
// everything.
func (a *agents) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	q := in.URL.Query()
	switch {
	case in.Method != http.MethodGet || !strings.HasSuffix(in.URL.Path, "/"+v1alpha1.NodeTopologies.Resource):
		refuse(out, http.StatusNotFound, metav1.StatusReasonNotFound)
	case q.Get("sendInitialEvents") != "": // refused, as by a server without streaming lists
		refuse(out, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case q.Get("watch") != "":
		a.watch(in.Context(), out)
	default:
		fmt.Fprint(out, `{"kind":"NodeTopologyList","apiVersion":"berth.dev/v1alpha1","metadata":{"resourceVersion":"0"},"items":[]}`)
	}
}

func (a *agents) watch(ctx context.Context, out http.ResponseWriter) {
	for at := 0; ; {
		a.mu.Lock()
		lines, news := a.told[at:], a.news
		a.mu.Unlock()
		for _, line := range lines {
			at++
			_, _ = fmt.Fprint(out, line)
		}
		out.(http.Flusher).Flush()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

func refuse(out http.ResponseWriter, code int, why metav1.StatusReason) {
	out.WriteHeader(code)
	_ = json.NewEncoder(out).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: why, Code: int32(code)})
}
