package gangs

import (
	"maps"
	"time"
)

// Shares limits the time that unsuccessful attempts to place gangs take from the scheduler. In the
// long run, all such attempts together get at most 1/Rarely of the time, shared equally by the
// namespaces, so that the gangs of one tenant do not delay those of another. The zero Shares is
// ready for use. Shares is not safe for concurrent use.
type Shares struct {
	// until has, by namespace, the end of the pause that its unsuccessful attempts have caused. Its
	// gangs have to wait only until Credit before that time.
	until map[string]time.Time
}

// Rarely is the inverse of the share of time that all unsuccessful attempts together may take in
// the long run.
const Rarely = 10

// Credit is the pause that a namespace may accumulate before its gangs have to wait. So a gang
// whose node changed during the plan is tried again after ShortestPause. While no other namespace
// has unsuccessful attempts, attempts that take Credit/Rarely in all (200 ms, about the time of one
// plan) do not delay other gangs of the namespace.
const Credit = 2 * time.Second

// Spend records the duration of an unsuccessful attempt that ends now. It returns the time when a
// gang of the namespace may be tried again.
func (s *Shares) Spend(namespace string, took time.Duration, now time.Time) time.Time {
	s.Forget(now, func(string) bool { return false })
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	from := s.until[namespace]
	if from.Before(now) {
		from = now
	}
	s.until[namespace] = from // so that len(s.until) counts this namespace
	s.until[namespace] = from.Add(Rarely * took * time.Duration(len(s.until)))
	return s.Until(namespace)
}

// Forget removes the namespaces whose pause is over, and the namespaces that are gone.
func (s *Shares) Forget(now time.Time, gone func(namespace string) bool) {
	maps.DeleteFunc(s.until, func(namespace string, at time.Time) bool { return !now.Before(at) || gone(namespace) })
}

// Until returns the time when a gang of the namespace may be tried again, or zero if the namespace
// has no pause.
func (s *Shares) Until(namespace string) time.Time {
	until := s.until[namespace]
	if until.IsZero() {
		return until
	}
	return until.Add(-Credit)
}
