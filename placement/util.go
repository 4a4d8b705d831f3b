package placement

import "strconv"

// quoteShort quotes a value for an error message, and shortens a long one.
func quoteShort(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "..."
	}
	return strconv.Quote(s)
}
