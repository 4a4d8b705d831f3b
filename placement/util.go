package placement

import "strconv"

// quoteShort quotes a value for an error message. It shortens a long value.
func quoteShort(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "..."
	}
	return strconv.Quote(s)
}
