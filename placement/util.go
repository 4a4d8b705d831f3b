package placement

import "strconv"

// quoteShort quotes a value from outside for an error message, cut to a bearable length.
func quoteShort(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "..."
	}
	return strconv.Quote(s)
}
