package jobs

import (
	"strconv"
	"strings"
)

// parseIndexes returns the indexes in a text like "0-3,5" that are less than limit, each once. It
// ignores other parts of the text. The text is written with package cpuset, whose Parse has no
// limit.
func parseIndexes(text string, limit int) (out []int) {
	next := 0
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, wrong := strconv.Atoi(to)
		for index := max(next, first); err == nil && wrong == nil && index <= min(last, limit-1); index++ {
			out, next = append(out, index), index+1
		}
	}
	return out
}
