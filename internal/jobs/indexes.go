package jobs

import (
	"slices"
	"strconv"
	"strings"
)

// formatIndexes returns the indexes of pods in ascending order, such as "0-3,5".
func formatIndexes(indexes []int) string {
	slices.Sort(indexes)
	var items []string
	for i := 0; i < len(indexes); {
		last := i
		for last+1 < len(indexes) && indexes[last+1] == indexes[last]+1 {
			last++
		}
		item := strconv.Itoa(indexes[i])
		if last > i {
			item += "-" + strconv.Itoa(indexes[last])
		}
		items, i = append(items, item), last+1
	}
	return strings.Join(items, ",")
}

// parseIndexes returns the indexes in a text of formatIndexes that are less than limit, each once.
// It ignores other parts of the text.
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
