package handover

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mute is a Binding whose first requests get no answer.
type mute struct {
	unanswered int
	sent       int
	bound      bool
}

func (m *mute) Make(*corev1.Pod) (*corev1.Binding, error) { return &corev1.Binding{}, nil }

func (m *mute) Post(ctx context.Context, _ *corev1.Binding) error {
	m.sent++
	if m.sent <= m.unanswered {
		<-ctx.Done()
		return ctx.Err()
	}
	m.bound = true
	return nil
}

func (m *mute) Read(context.Context) (*corev1.Pod, error) { return &corev1.Pod{}, nil }
func (m *mute) Reconsider() error                         { return nil }
func (m *mute) Forbidden(*corev1.Pod) string              { return "" }

var _ Binding = (*mute)(nil)

// TestABindingWithoutAnAnswerEnds: if it was not written, it is written again. It ends in doubt if
// there is no answer then either.
func TestABindingWithoutAnAnswerEnds(t *testing.T) {
	for _, c := range []struct {
		unanswered int
		bound      bool
		after      time.Duration
	}{{0, true, 0}, {1, true, BindTimeout}, {100, false, BindTimeout + readBackFor}} {
		synctest.Test(t, func(t *testing.T) {
			m, begun := &mute{unanswered: c.unanswered}, time.Now()
			err := Write(t.Context(), m, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, "n")
			if m.bound != c.bound || (err == nil) != c.bound || err != nil && !errors.Is(err, ErrInDoubt) || time.Since(begun) != c.after {
				t.Errorf("%d without an answer: bound %t, error %v, after %v; want %t after %v", c.unanswered, m.bound, err, time.Since(begun), c.bound, c.after)
			}
		})
	}
}
