package simulate

// Unused is what is free at the end, in percent of what all nodes have, by what a pod of the load
// would find there: the pods of the load that ask for GPUs, each with its part, all of them if
// nobody asks for GPUs.
type Unused struct {
	// Usable: the pod would be admitted.
	Usable float64 `json:"usable"`
	// The others are stranded for it: the node has too few CPUs, too little memory, too few GPUs
	// that it may have, or all of it on NUMA nodes that do not suit.
	CPUs      float64 `json:"fewCPUs"`
	Memory    float64 `json:"littleMemory"`
	GPUs      float64 `json:"fewGPUs"`
	NUMANodes float64 `json:"apart"`
}

// by is the part of what the pod lacks.
func (u *Unused) by(l Lack) *float64 {
	return [lacks]*float64{LacksNothing: &u.Usable, LacksCPUs: &u.CPUs, LacksMemory: &u.Memory, LacksGPUs: &u.GPUs, LacksNUMANodes: &u.NUMANodes}[l]
}

// unusedOf looks at what a cluster has left for the load.
func unusedOf(c Cluster, all Capacity, load []Typical) *Unused {
	u, gpus, parts := &Unused{}, all.GPU > 0, 0.0
	for i := range load {
		if !gpus || load[i].Shape.GPUs > 0 {
			parts += load[i].Part
		}
	}
	for i := range load {
		if s := load[i].Shape; parts > 0 && (!gpus || s.GPUs > 0) {
			for node := range c.Size() {
				*u.by(c.Lacks(node, s)) += load[i].Part / parts * percent(c.Free(node, gpus), all.GPU+all.CPU)
			}
		}
	}
	return u
}

func meanUnused(runs []Run) *Unused {
	mean := &Unused{}
	for lack := range lacks {
		for i := range runs {
			*mean.by(lack) += *runs[i].Unused.by(lack) / float64(len(runs))
		}
		*mean.by(lack) = round(*mean.by(lack))
	}
	return mean
}
