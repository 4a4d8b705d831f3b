package main

import (
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/controlplane"
)

// TestWhoDeletesIsNamed: a unit deletes only its own pods, even if other pods have their names by
// then. For a deleted pod the user is named.
func TestWhoDeletesIsNamed(t *testing.T) {
	by, err := newDeletions(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Flags: by.flags()})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Stop()
	client := func(user string) kubernetes.Interface {
		config, err := cp.UserConfig(user, []string{"system:masters"})
		if err != nil {
			t.Fatal(err)
		}
		return kubernetes.NewForConfigOrDie(rest.AddUserAgent(config, "agent-of-"+user))
	}
	stranger := client("stranger")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: friends}}
	if _, err := stranger.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := newWatcher(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	load := &friendly{watcher: w, clients: client("owner")}
	make := func(unitName string) (*unit, *corev1.Pod) {
		u := &unit{friendly: load, name: unitName}
		if err := u.create(t.Context(), u.pod("gang0-0", 1)); err != nil {
			t.Fatal(err)
		}
		pod, err := stranger.CoreV1().Pods(friends).Get(t.Context(), "gang0-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u, pod
	}
	first, victim := make("first")
	if err := stranger.CoreV1().Pods(friends).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, next := make("next")
	if err := first.takes[0](t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("first takes its pod away when another has its name: %v, want a conflict", err)
	}
	if there, err := stranger.CoreV1().Pods(friends).Get(t.Context(), next.Name, metav1.GetOptions{}); err != nil || there.UID != next.UID {
		t.Errorf("the next pod of the name: %v, want it left alone", err)
	}
	who, err := by.of(victim)
	if err != nil || len(who) != 2 {
		t.Fatalf("%d deletions, %v: want the stranger's and the owner's: %q", len(who), err, who)
	}
	for i, want := range [][]string{
		{"stranger (", "agent-of-stranger) deletes gang0-0 of any UID: 200, this pod"},
		{"owner (", "agent-of-owner) deletes gang0-0 of UID " + string(victim.UID) + ": 409, another pod, or none"},
	} {
		if !strings.Contains(who[i], want[0]) || !strings.Contains(who[i], want[1]) {
			t.Errorf("%q: want %q", who[i], want)
		}
	}
}
