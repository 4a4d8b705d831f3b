// Package clip cuts texts from outside to a limited length, never inside a character.
package clip

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Event is the maximum length of an event's note, in bytes. Conditions and logs have more of the
// text.
const Event = 300

// Condition is the maximum length of one text in the message of a condition, in bytes.
const Condition = 1000

// value is the maximum number of bytes of a wrong value that an error repeats.
const value = 80

// Text returns s. If s has more bytes than the limit, Text cuts it to the limit and appends "...".
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:boundary(s, most)] + "..."
}

// Note returns s. If s has more than Event bytes, Note cuts it to at most Event bytes, if possible
// between two words.
func Note(s string) string {
	if len(s) <= Event {
		return s
	}
	head := s[:boundary(s, Event-len("..."))]
	if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
		head = strings.TrimRight(head[:at], " ,;:")
	}
	return head + "..."
}

// Quoted returns a value in quotes, for an error. It cuts a long value.
func Quoted(s string) string {
	if len(s) <= value {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:boundary(s, value)]) + "..."
}

// boundary returns the last position up to the limit at which s can be cut without splitting a
// character.
func boundary(s string, most int) int {
	for at := most; at > most-utf8.UTFMax && at >= 0; at-- {
		if utf8.RuneStart(s[at]) {
			return at
		}
	}
	return most // no UTF-8
}
