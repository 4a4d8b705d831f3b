// Package suggest finds, for an unknown word, the known word that was probably meant: "did you
// mean".
package suggest

import (
	"slices"
	"strings"
	"unicode"
)

// maxWord is the longest word that is compared, in bytes. A longer word was not mistyped.
const maxWord = 64

// Nearest returns the known word that differs from the given word by the fewest edits. It allows
// one edit, plus one per four bytes of the given word, and at most three. If no known word is that
// close, and the given word has several parts, Nearest considers the known words that have all of
// these parts, and returns the one with the fewest parts. So it returns reservedSystemCPUs for
// reservedCpus. Without such a word, it returns "". Case does not matter. Among equally good words
// it returns the first.
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
	if best == "" {
		return withAllWords(word, known)
	}
	return best
}

// withAllWords returns the known name with the fewest words that has all words of the given name.
// It returns "" if the given name has only one word.
func withAllWords(name string, known []string) (best string) {
	words, least := wordsOf(name), 0
	if len(words) < 2 {
		return ""
	}
	for _, k := range known {
		if k == name || len(k) > maxWord {
			continue
		}
		has := wordsOf(k)
		missing := slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) })
		if !missing && (best == "" || len(has) < least) {
			best, least = k, len(has)
		}
	}
	return best
}

// wordsOf returns the words of a name like reservedSystemCPUs or reserved-cpus, without the s of a
// plural.
func wordsOf(name string) (words []string) {
	var spaced strings.Builder
	old := ' '
	for _, c := range name {
		if unicode.IsUpper(c) && unicode.IsLower(old) || !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			spaced.WriteRune(' ')
		}
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			spaced.WriteRune(unicode.ToLower(c))
		}
		old = c
	}
	for word := range strings.FieldsSeq(spaced.String()) {
		words = append(words, strings.TrimSuffix(word, "s"))
	}
	return words
}

// DidYouMean returns Nearest as the end of a sentence: ` (did you mean "x"?)`, or "".
func DidYouMean(word string, known []string) string {
	if n := Nearest(word, known); n != "" {
		return ` (did you mean "` + n + `"?)`
	}
	return ""
}

// distance returns the number of edits between two words. An edit adds, removes or replaces a
// letter, or swaps two neighbours (optimal string alignment).
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
