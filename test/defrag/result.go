package main

// result is the last line.
type result struct {
	Seed uint64 `json:"seed"`
	// Plans are the ones that move pods and were carried out; MadeRoom those after which the wanted
	// pod ran.
	Plans    int `json:"plans"`
	MadeRoom int `json:"madeRoom"`
	// PDBViolated counts how often fewer pods were healthy than a budget wants, Refused pods that a
	// kubelet refused, Worse plans after which fewer replicas ran than before, or a holder was
	// left.
	PDBViolated int `json:"pdbViolated"`
	Refused     int `json:"refused"`
	Worse       int `json:"worse"`
	// Moves is how many pods were moved in all, Gangs how many plans were for a gang.
	Moves int `json:"moves"`
	Gangs int `json:"gangs"`
}

func (r *result) ok() bool {
	return r.PDBViolated == 0 && r.Refused == 0 && r.Worse == 0 && r.MadeRoom >= r.Plans && r.Plans >= leastPlans
}
