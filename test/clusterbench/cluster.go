package main

// cluster measures both schedulers on clusters of growing size.
func (b *bench) cluster() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds, true); err != nil {
		return err
	}
	c := &comparison{bench: b, kinds: kinds}
	for i := range b.options.nodes {
		for pair := range of(b.options.pairs, i) {
			if err := c.pairs(i, pair); err != nil {
				return err
			}
		}
		if err := c.filter(i); err != nil {
			return err
		}
	}
	return nil
}
