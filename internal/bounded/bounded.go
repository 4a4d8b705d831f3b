// Package bounded has a map with a maximum number of keys.
package bounded

// Map has values by key, at most as many as the argument of New. The zero Map stores no keys. A Map
// is not safe for concurrent use.
type Map[K comparable, V any] struct {
	most  int
	of    map[K]V
	owner func(K) string
}

// New returns an empty Map. If the Map is full, a new key replaces an arbitrary other key.
func New[K comparable, V any](most int) Map[K, V] { return Map[K, V]{most: most, of: map[K]V{}} }

// Shared does what New does, for keys that have owners. If the Map is full, a new key replaces a
// key of the owner with the most keys. So a tenant that adds many keys displaces mostly its own
// keys.
func Shared[K comparable, V any](most int, owner func(K) string) Map[K, V] {
	return Map[K, V]{most, map[K]V{}, owner}
}

// Get returns the value of a key, or false if the Map does not have the key.
func (m *Map[K, V]) Get(key K) (V, bool) {
	value, ok := m.of[key]
	return value, ok
}

// Set gives a key its value.
func (m *Map[K, V]) Set(key K, value V) {
	if m.most == 0 {
		return
	}
	if _, known := m.of[key]; !known && len(m.of) >= m.most {
		m.makeWay()
	}
	m.of[key] = value
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) { delete(m.of, key) }

// Len returns the number of keys.
func (m *Map[K, V]) Len() int { return len(m.of) }

func (m *Map[K, V]) makeWay() {
	count, largest := map[string]int{}, ""
	if m.owner != nil {
		for key := range m.of {
			of := m.owner(key)
			if count[of]++; count[of] > count[largest] {
				largest = of
			}
		}
	}
	for key := range m.of {
		if m.owner == nil || m.owner(key) == largest {
			delete(m.of, key)
			return
		}
	}
}
