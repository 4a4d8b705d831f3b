package simulate

// Unused classifies the free GPUs at the end of a run: could a pod of the load use them and, if
// not, why? The fields are percentages of all GPUs, averaged over the pods that ask for GPUs. If no
// pod asks for GPUs, the fields are percentages of all CPUs, averaged over all pods.
type Unused struct {
	// Usable is the part on nodes that would admit the pod.
	Usable float64 `json:"usable"`
	// The other fields are the parts on nodes that would not admit the pod: nodes with too few
	// CPUs, too little memory, too few suitable GPUs, or enough resources on the wrong NUMA nodes.
	CPUs      float64 `json:"fewCPUs"`
	Memory    float64 `json:"littleMemory"`
	GPUs      float64 `json:"fewGPUs"`
	NUMANodes float64 `json:"apart"`
}

func (u *Unused) by(l Lack) *float64 {
	return [lacks]*float64{LacksNothing: &u.Usable, LacksCPUs: &u.CPUs, LacksMemory: &u.Memory, LacksGPUs: &u.GPUs, LacksNUMANodes: &u.NUMANodes}[l]
}

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
