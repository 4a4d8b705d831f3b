// Package suggest finds the word that somebody meant: "did you mean".
package suggest

import (
	"strings"
)

// maxWord is the longest word that is compared, in bytes. A longer one was not mistyped.
const maxWord = 64

// Nearest returns the known word that is nearest to the given one, or "" where none is near: one
// slip in three letters, at most three in all. Case does not count. Of equally near ones the first
// is taken.
func Nearest(word string, known []string) string {
	best, least := "", min(3, 1+len(word)/4)+1
	if len(word) > maxWord {
		return ""
	}
	for _, k := range known {
		if k == word || len(k) > maxWord {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// DidYouMean is Nearest as the end of a sentence: ` (did you mean "x"?)`, or nothing.
func DidYouMean(word string, known []string) string {
	if n := Nearest(word, known); n != "" {
		return ` (did you mean "` + n + `"?)`
	}
	return ""
}

// distance is the number of letters to add, leave out, replace or swap with their neighbour (the
// optimal string alignment).
func distance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
