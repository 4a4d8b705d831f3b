package rank

import (
	"bytes"
	"encoding/json"
)

// Formula is a scoring formula that replaces Berth's own order.
type Formula string

// Volcano is the formula of Volcano's numa-aware plugin: see VolcanoScore. With this formula,
// criteria, strategy and weights have no effect. The formula "" is Berth's own order.
const Volcano Formula = "volcano"

// UnmarshalJSON reads an object, or a string that is the name of a formula.
func (s *Scoring) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		*s = Scoring{}
		return json.Unmarshal(data, &s.Formula)
	}
	type plain Scoring // without the method UnmarshalJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(s))
}

// VolcanoScore returns 100 - 100*spans/most, rounded as in Volcano. `spans` is the number of NUMA
// nodes that the pod would have on one node, and most is the largest such number among the scored
// nodes. So fewer NUMA nodes are better, and the worst node gets 0. The result is also 0 if spans
// or most is less than 1. The formula has no weight of its own: the weight of Berth's plugin in the
// scheduler's profile applies.
func VolcanoScore(spans, most int64) int64 {
	if spans < 1 || most < 1 {
		return 0
	}
	return MaxScore - MaxScore*min(spans, most)/most
}
