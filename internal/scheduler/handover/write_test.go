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
	// hasty means that such requests fail at once, without a definite answer.
	hasty bool
}

func (m *mute) Make(*corev1.Pod) (*corev1.Binding, error) { return &corev1.Binding{}, nil }

func (m *mute) Post(ctx context.Context, _ *corev1.Binding) error {
	m.sent++
	if m.sent <= m.unanswered && m.hasty {
		return errors.New("connection refused")
	}
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
		hasty      bool
	}{{0, true, 0, false}, {1, true, BindTimeout, false}, {100, false, BindTimeout + readBackFor, false}, {100, false, readBackFor, true}} {
		synctest.Test(t, func(t *testing.T) {
			m, begun := &mute{unanswered: c.unanswered, hasty: c.hasty}, time.Now()
			err := Write(t.Context(), m, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, "n")
			if m.bound != c.bound || (err == nil) != c.bound || err != nil && !errors.Is(err, ErrInDoubt) || time.Since(begun) != c.after {
				t.Errorf("%d without an answer: bound %t, error %v, after %v; want %t after %v", c.unanswered, m.bound, err, time.Since(begun), c.bound, c.after)
			}
		})
	}
}
