package simulate

import (
	"slices"
)

// Timed is the result of a run in which pods end. Most fields count only the measured time, from
// From to To.
type Timed struct {
	// From and To are seconds of the run.
	From int64 `json:"fromSecond"`
	To   int64 `json:"toSecond"`
	// Arrived is the number of pods that arrived in the whole run.
	Arrived int64 `json:"arrived"`
	// GPUs and CPUs are amounts of pods that arrived in the measured time: thousandths of a GPU or
	// a CPU, multiplied by the seconds of the measured time in which the pod ran. Asked is the
	// amount that would result if no pod had to wait. A gang counts while all of its members run.
	GPUs Served `json:"gpuSeconds"`
	CPUs Served `json:"cpuSeconds"`
	// Waiting is the time from arrival to running, for pods that arrived in the measured time. The
	// members of a gang run when all of them have a node. A pod that never ran waits until the end.
	Waiting Waiting `json:"waitingSeconds"`
	// Refused is the number of pods that arrived in the measured time and that a kubelet refused
	// before they first ran.
	Refused int64 `json:"refused"`
	// Left is the number of pods without a node at the end.
	Left int64 `json:"leftWaiting"`
	// Gangs is the number of gangs that arrived in the measured time. Whole is the number of these
	// gangs whose members all ran at the same time before the end.
	Gangs int64 `json:"gangs"`
	Whole int64 `json:"gangsWhole"`
	// Plans is nil if the strategy does not move pods.
	Plans *Plans `json:"plans,omitempty"`
	// Course samples the whole run at even intervals.
	Course []Moment `json:"course"`
}

// Waiting has the median, the 99th percentile and the maximum of the pods' waiting times, in
// seconds.
type Waiting struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	Most int64 `json:"most"`
}

// Moment is the state of a run at one second. InUse and Aligned are percentages of the GPUs of all
// nodes, or of the CPUs if no pod asks for GPUs. Waiting is the number of pods without a node.
type Moment struct {
	Second  int64   `json:"second"`
	InUse   float64 `json:"inUse"`
	Aligned float64 `json:"aligned"`
	Waiting int64   `json:"waiting"`
}

// moments is the number of intervals in a course. The course has one more Moment.
const moments = 100

// meter collects the results of a run while its clock advances.
type meter struct {
	all     Capacity
	figures Figures
	timed   Timed
	waits   []int64
	// gpus and cpus are the served amounts of all pods in the measured time, whenever they arrived.
	gpus, cpus Served
	// inUse and aligned are the thousandths of GPUs or CPUs in use now. `waiting` is the number of
	// pods without a node.
	inUse, aligned, waiting int64
}

// one returns a pod's request for the resource that the capacity counts: GPUs, or CPUs if there are
// no GPUs.
func (c Capacity) one(s *Shape) int64 {
	if c.GPU > 0 {
		return s.AskedGPU()
	}
	return s.MilliCPU
}

func (c Capacity) percent(n int64) float64 { return percent(n, c.GPU+c.CPU) }

// pass adds the Moments up to the given second. It reports whether it added one.
func (m *meter) pass(at int64) (passed bool) {
	for {
		next := m.timed.To * int64(len(m.timed.Course)) / moments
		if next > at || len(m.timed.Course) > moments {
			return passed
		}
		m.timed.Course = append(m.timed.Course, Moment{next, round(m.all.percent(m.inUse)), round(m.all.percent(m.aligned)), m.waiting})
		passed = true
	}
}

// counts reports whether a job arrived in the measured time.
func (m *meter) counts(j *job) bool { return j.at >= m.timed.From }

// during returns the number of seconds of an interval that are within the measured time.
func (m *meter) during(from, to int64) int64 {
	return max(0, min(to, m.timed.To)-max(from, m.timed.From))
}

func (m *meter) arrived(j *job, s *Shape) {
	n := int64(j.members)
	m.timed.Arrived += n
	m.waiting += n
	if !m.counts(j) {
		return
	}
	seconds := m.during(j.at, j.at+j.left) * n
	m.timed.GPUs.Asked += seconds * s.AskedGPU()
	m.timed.CPUs.Asked += seconds * s.MilliCPU
	if n > 1 {
		m.timed.Gangs++
	}
}

// stands counts a pod that runs at the start.
func (m *meter) stands(s *Shape, o Outcome) {
	m.waiting++
	m.hold(s, o, 1)
}

// hold counts a pod that gets a node (n is 1) or leaves its node (n is -1).
func (m *meter) hold(s *Shape, o Outcome, n int64) {
	amount := n * m.all.one(s)
	m.inUse += amount
	if o.Aligned {
		m.aligned += amount
	}
	m.waiting -= n
}

func (m *meter) refused(j *job) {
	if m.counts(j) {
		m.figures.Refusals++
	}
}

// began counts a job when all of its members run.
func (m *meter) began(c *clock, j *job) {
	if !j.started && m.counts(j) {
		m.first(c, j, c.now-j.at)
		if j.members > 1 {
			m.timed.Whole++
		}
	}
	j.started = true
}

// first counts the pods of a job once: when all of them run for the first time, or otherwise at the
// end of the simulation.
func (m *meter) first(c *clock, j *job, waited int64) {
	for pod := j.first; pod < j.first+j.members; pod++ {
		m.waits = append(m.waits, waited)
		m.figures.arrived(&c.scores.shapes[j.shape], j.placed == j.members, c.members[pod].outcome)
		if c.members[pod].tries > 0 {
			m.timed.Refused++
		}
	}
}

// ended adds up the GPU time and the CPU time of the job's pods since all of them began to run.
func (m *meter) ended(c *clock, j *job) {
	if j.began < 0 {
		return
	}
	s, seconds := &c.scores.shapes[j.shape], m.during(j.began, c.now)
	for pod := j.first; pod < j.first+j.members; pod++ {
		aligned := c.members[pod].outcome.Aligned
		serve(&m.gpus, seconds*s.AskedGPU(), aligned)
		serve(&m.cpus, seconds*s.MilliCPU, aligned)
		if m.counts(j) {
			serve(&m.timed.GPUs, seconds*s.AskedGPU(), aligned)
			serve(&m.timed.CPUs, seconds*s.MilliCPU, aligned)
		}
	}
}

func serve(s *Served, n int64, aligned bool) {
	s.Served += n
	if aligned {
		s.Aligned += n
	}
}

// left is called for every job at the end of the run. It counts the job's pods without a node, the
// waiting time of a job that never began, and the GPU and CPU time of a job that still runs.
func (m *meter) left(c *clock, j *job) {
	if j.left > 0 {
		m.timed.Left += int64(j.members - j.placed)
	}
	if !j.started && m.counts(j) {
		m.first(c, j, c.now-j.at)
	}
	m.ended(c, j)
}

func (m *meter) result(r *Run) {
	t := &m.timed
	slices.Sort(m.waits)
	if n := len(m.waits); n > 0 {
		t.Waiting = Waiting{m.waits[(n-1)/2], m.waits[(n-1)*99/100], m.waits[n-1]}
	}
	r.Figures, r.Timed = m.figures, t
	r.Aligned = m.all.percent(m.gpus.Aligned / max(1, m.timed.To-m.timed.From))
	if m.all.GPU == 0 {
		r.Aligned = m.all.percent(m.cpus.Aligned / max(1, m.timed.To-m.timed.From))
	}
}
