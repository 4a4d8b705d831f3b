package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// deletions reads who deleted which friendly pod, from the API server's audit log in a directory.
type deletions string

// auditPolicy makes the API server log every deletion of a friendly pod, with its options and the
// deleted pod.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [delete, deletecollection]
  namespaces: [` + friends + `]
  resources: [{group: "", resources: [pods]}]
`

// newDeletions makes the directory, below dir.
func newDeletions(dir string) (deletions, error) {
	made, err := os.MkdirTemp(dir, "berth-audit-")
	if err != nil {
		return "", err
	}
	d := deletions(made)
	return d, os.WriteFile(d.policy(), []byte(auditPolicy), 0o600)
}

func (d deletions) policy() string { return filepath.Join(string(d), "policy.yaml") }
func (d deletions) log() string    { return filepath.Join(string(d), "audit.log") }

// flags make an API server write the log.
func (d deletions) flags() []string {
	return []string{"--audit-policy-file=" + d.policy(), "--audit-log-path=" + d.log()}
}

// of returns the users that deleted the pod or tried to, one line per request. It skips requests
// that ended before the pod was created, because they concern an earlier pod of that name.
func (d deletions) of(pod *corev1.Pod) (who []string, err error) {
	f, err := os.Open(d.log())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no friendly pod was deleted
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return who, fmt.Errorf("%s: %w", d.log(), err)
		}
		if about(&e, pod) {
			who = append(who, tellDeletion(&e, pod))
		}
	}
	return who, lines.Err()
}

// about reports whether a deletion can have concerned the pod.
func about(e *auditv1.Event, pod *corev1.Pod) bool {
	if e.ObjectRef == nil || e.ObjectRef.Namespace != pod.Namespace || e.StageTimestamp.Time.Before(pod.CreationTimestamp.Time) {
		return false
	}
	return e.ObjectRef.Name == pod.Name || e.ObjectRef.Name == "" // a request to delete a collection has no name
}

// tellDeletion describes a deletion: the user, the request, and the deleted pod.
func tellDeletion(e *auditv1.Event, pod *corev1.Pod) string {
	var options metav1.DeleteOptions
	if e.RequestObject != nil {
		_ = json.Unmarshal(e.RequestObject.Raw, &options) // unreadable options have no precondition
	}
	asked := "of any UID"
	if p := options.Preconditions; p != nil && p.UID != nil {
		asked = "of UID " + string(*p.UID)
	}
	code, hit := int32(0), "another pod, or none"
	if e.ResponseStatus != nil {
		code = e.ResponseStatus.Code
	}
	if code == http.StatusOK && e.ResponseObject != nil && strings.Contains(string(e.ResponseObject.Raw), string(pod.UID)) {
		hit = "this pod"
	}
	return fmt.Sprintf("%s %s (%s) deletes %s %s: %d, %s", e.RequestReceivedTimestamp.UTC().Format(time.TimeOnly+".000"), e.User.Username, e.UserAgent, e.ObjectRef.Name, asked, code, hit)
}
