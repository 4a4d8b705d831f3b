// Package clip cuts texts from outside to a limited length, never inside a character.
package clip

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Event is the largest length of an event's note, in bytes. A condition or a log has the full text.
const Event = 300

// Condition is the largest length of a text in the message of a condition, in bytes.
const Condition = 1000

// value is how many bytes of a wrong value an error repeats.
const value = 80

// Text returns s, or its first bytes and "..." if it is longer than most.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:boundary(s, most)] + "..."
}

// Note returns s, or at most Event bytes of it, cut between words if there are any.
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

// Quoted returns a value from outside for an error: quoted, and cut if it is long.
func Quoted(s string) string {
	if len(s) <= value {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:boundary(s, value)]) + "..."
}

// boundary returns the last position up to most where s can be cut without splitting a character.
func boundary(s string, most int) int {
	for at := most; at > most-utf8.UTFMax && at >= 0; at-- {
		if utf8.RuneStart(s[at]) {
			return at
		}
	}
	return most // no UTF-8
}
