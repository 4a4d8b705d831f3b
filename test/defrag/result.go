package main

// result is the last line.
type result struct {
	Seed uint64 `json:"seed"`
	// Plans counts plans with moves that were carried out, MadeRoom the plans after which the
	// wanted pod ran.
	Plans    int `json:"plans"`
	MadeRoom int `json:"madeRoom"`
	// PDBViolated counts how often fewer pods were healthy than a budget requires, Refused the pods
	// that a kubelet refused, and Worse the plans after which fewer replicas ran than before or a
	// placeholder was left.
	PDBViolated int `json:"pdbViolated"`
	Refused     int `json:"refused"`
	Worse       int `json:"worse"`
	// Moves is the total number of moved pods, Gangs the number of plans for a gang.
	Moves int `json:"moves"`
	Gangs int `json:"gangs"`
}

func (r *result) ok() bool {
	return r.PDBViolated == 0 && r.Refused == 0 && r.Worse == 0 && r.MadeRoom >= r.Plans && r.Plans >= leastPlans
}
