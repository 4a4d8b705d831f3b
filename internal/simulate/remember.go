package simulate

import "math"

// scores caches the strategy's scores of nodes, by the pod's shape. Nodes with the same free
// resources share a row. scores deletes a row when no node has these free resources any more, so
// there are never more rows than nodes.
type scores struct {
	cluster Cluster
	shapes  []Shape
	by      Scorer
	// width is the number of scores in a row. Shapes whose indices are equal modulo width replace
	// one another's score.
	width int
	rows  map[string]*scoreRow
	of    []*scoreRow // by node
	kept  []bool      // by node: it is closed to all pods
	key   []byte
	look  Look
}

type scoreRow struct {
	key   string
	nodes int
	known []knownScore // by the index of the shape modulo width
}

type knownScore struct {
	shape int32 // the index of the shape plus 1; 0 means that no score is cached
	score int32
}

// refusing is the score of a node that does not admit the pod.
const refusing = math.MinInt32

// maxScores limits the number of scores in all rows together. A score takes 8 bytes.
const maxScores = 1 << 24

func newScores(c Cluster, all []Shape, by Scorer) *scores {
	m := &scores{cluster: c, shapes: all, by: by, rows: map[string]*scoreRow{}, of: make([]*scoreRow, c.Size()), kept: make([]bool, c.Size())}
	m.width = min(len(all), max(1, maxScores/max(1, c.Size())))
	for node := range m.of {
		m.join(node)
	}
	return m
}

// join gives the node the row of its free resources.
func (m *scores) join(node int) {
	m.key = m.cluster.AppendKey(m.key[:0], node)
	row, ok := m.rows[string(m.key)]
	if !ok {
		row = &scoreRow{key: string(m.key), known: make([]knownScore, m.width)}
		m.rows[row.key] = row
	}
	row.nodes++
	m.of[node] = row
}

func (m *scores) changed(node int) {
	row := m.of[node]
	if row.nodes--; row.nodes == 0 {
		delete(m.rows, row.key)
	}
	m.join(node)
}

// keep closes the node to all pods, or opens it again if the argument `yes` is false.
func (m *scores) keep(node int, yes bool) { m.kept[node] = yes }

func (m *scores) open(node int) bool { return !m.kept[node] }

func (m *scores) forget() {
	for _, row := range m.rows {
		clear(row.known)
	}
}

// score returns the node's score for a pod of the shape, or refusing if the node does not admit the
// pod.
func (m *scores) score(node int, shape int32) int32 {
	if m.kept[node] {
		return refusing
	}
	row := m.of[node]
	k := &row.known[int(shape)%m.width]
	if k.shape == shape+1 {
		return k.score
	}
	k.shape, k.score = shape+1, refusing
	if m.cluster.Look(node, &m.shapes[shape], &m.look) {
		k.score = int32(m.by.Score(&m.look))
	}
	return k.score
}
