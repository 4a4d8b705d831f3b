package simulate

// Recording is what a run looked like, for those who draw it.
type Recording struct {
	Unused Unused `json:"unused"`
	// Steps are how many percent had arrived when the nodes were looked at, InUse what was in use
	// then: by step, and by row. Only the first seed of an Experiment has them.
	Steps []int     `json:"-"`
	InUse [][]uint8 `json:"-"`
}

// Unused is what is free at the end, in percent of what all nodes have, by what a pod of the load
// would find there: the pods of the load that ask for GPUs, each with its part, all of them where
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

// The bounds of a Recording. A row is one node of the list, or several that follow one another.
const (
	maxRows = 200
	stepOf  = 2 // percent
)

// recorder makes a Recording. All its methods may be called of nil.
type recorder struct {
	cluster Cluster
	all     Capacity
	rows    int     // 0: only the end is looked at
	had     []int64 // by row, before anything was there
	made    Recording
}

func newRecorder(c Cluster, all Capacity, steps bool) *recorder {
	r := &recorder{cluster: c, all: all}
	if steps {
		r.rows = min(maxRows, c.Size())
		r.had = r.free()
	}
	return r
}

// free is what the rows have left.
func (r *recorder) free() []int64 {
	out := make([]int64, r.rows)
	for node := range r.cluster.Size() {
		out[node*r.rows/r.cluster.Size()] += r.cluster.Free(node, r.all.GPU > 0)
	}
	return out
}

// arrived looks at the nodes, where a step is complete.
func (r *recorder) arrived(percent float64) {
	if r == nil || r.rows == 0 || int(percent) < len(r.made.Steps)*stepOf {
		return
	}
	row := make([]uint8, r.rows)
	for i, free := range r.free() {
		row[i] = uint8(255 * (r.had[i] - free) / max(1, r.had[i]))
	}
	for len(r.made.Steps)*stepOf <= min(int(percent), maxPercent) {
		r.made.Steps, r.made.InUse = append(r.made.Steps, len(r.made.Steps)*stepOf), append(r.made.InUse, row)
	}
}

// end looks at what is left for the load.
func (r *recorder) end(load []Typical) *Recording {
	if r == nil {
		return nil
	}
	gpus, parts := r.all.GPU > 0, 0.0
	for i := range load {
		if !gpus || load[i].Shape.GPUs > 0 {
			parts += load[i].Part
		}
	}
	for i := range load {
		if s := load[i].Shape; parts > 0 && (!gpus || s.GPUs > 0) {
			for node := range r.cluster.Size() {
				*r.made.Unused.by(r.cluster.Lacks(node, s)) += load[i].Part / parts * percent(r.cluster.Free(node, gpus), r.all.GPU+r.all.CPU)
			}
		}
	}
	return &r.made
}

func meanUnused(runs []Run) *Unused {
	mean := &Unused{}
	for lack := range lacks {
		for i := range runs {
			*mean.by(lack) += *runs[i].Recording.Unused.by(lack) / float64(len(runs))
		}
		*mean.by(lack) = round(*mean.by(lack))
	}
	return mean
}
