package enforce

import "fmt"

// complaints lists the containers that do not run as decided.
func (b *Books) complaints() []Complaint {
	var out []Complaint
	for _, id := range b.ids() {
		if e := b.all[id]; e.why() != "" {
			out = append(out, Complaint{e.Name, e.why()})
		}
	}
	return out
}

// check returns an error if two pods hold the same CPU or device, or if a shared container has an
// exclusive CPU or no CPU.
func (b *Books) check() error {
	pool := b.pool()
	for _, c := range b.claims { // shared containers that started before the claim may still use its CPUs
		pool = pool.Or(&c.cpus)
	}
	for _, e := range b.all {
		if e.next != nil {
			pool = pool.Or(&e.shut)
		}
	}
	for _, id := range b.ids() {
		e := b.all[id]
		for _, other := range b.ids() {
			if o := b.all[other]; !samePod(&o.Container, &e.Container) && e.shut.Intersects(&o.shut) {
				return fmt.Errorf("%s and %s both hold CPUs %s", e.Name, o.Name, e.shut.And(&o.shut))
			}
		}
		for i := range e.devices {
			for _, device := range e.devices[i].IDs {
				if other := b.holder(e, device); other != "" {
					return fmt.Errorf("%s and %s both hold device %s", e.Name, other, device)
				}
			}
		}
		switch {
		case !e.running:
		case e.set.CPUs.IsEmpty():
			return fmt.Errorf("%s runs without a CPU set", e.Name)
		case !e.set.Pinned && !e.set.CPUs.IsSubsetOf(&pool):
			return fmt.Errorf("%s runs on CPUs %s, but the shared CPUs are %s", e.Name, e.set.CPUs, pool)
		}
	}
	return nil
}
