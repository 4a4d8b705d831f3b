package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSequence is the maximum number of values in one sequence of a machine string.
const maxSequence = 1 << 16

// appendSequence appends numbers in the given order. It writes arithmetic runs as "A-B" or
// "A-B/STEP".
func appendSequence(b []byte, seq []int) []byte {
	for i := 0; i < len(seq); {
		if i > 0 {
			b = append(b, ',')
		}
		n, step := run(seq[i:])
		b = strconv.AppendInt(b, int64(seq[i]), 10)
		if n > 1 {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(seq[i+n-1]), 10)
		}
		if n > 1 && step > 1 {
			b = append(b, '/')
			b = strconv.AppendInt(b, int64(step), 10)
		}
		i += n
	}
	return b
}

// run returns the length and step of the ascending arithmetic run at the start of seq. Two numbers
// are a run only if they are consecutive.
func run(seq []int) (n, step int) {
	if len(seq) < 2 || seq[1] <= seq[0] {
		return 1, 1
	}
	step = seq[1] - seq[0]
	for n = 2; n < len(seq) && seq[n]-seq[n-1] == step; n++ {
	}
	if n == 2 && step > 1 {
		return 1, 1
	}
	return n, step
}

// parseSequence parses the format of appendSequence. Numbers are 0 to limit.
func parseSequence(text string, limit int) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(text, ",") {
		lo, hi, step, err := parseRun(item, limit)
		if err != nil {
			return nil, err
		}
		if len(out)+(hi-lo)/step >= maxSequence {
			return nil, fmt.Errorf("more than %d numbers", maxSequence)
		}
		for n := lo; n <= hi; n += step {
			out = append(out, n)
		}
	}
	return out, nil
}

func parseRun(item string, limit int) (lo, hi, step int, err error) {
	span, stepText, stepped := strings.Cut(item, "/")
	from, to, ranged := strings.Cut(span, "-")
	if lo, err = parseNumber(from, limit); err != nil {
		return 0, 0, 0, err
	}
	hi, step = lo, 1
	if ranged {
		if hi, err = parseNumber(to, limit); err != nil {
			return 0, 0, 0, err
		}
	}
	if stepped {
		if step, err = parseNumber(stepText, limit); err != nil {
			return 0, 0, 0, err
		}
	}
	if hi < lo || step < 1 || stepped && !ranged {
		return 0, 0, 0, fmt.Errorf("%.40q: want A, A-B or A-B/STEP with A <= B and STEP >= 1", item)
	}
	return lo, hi, step, nil
}

func parseNumber(text string, limit int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > uint64(limit) {
		return 0, fmt.Errorf("%.40q: want a number from 0 to %d", text, limit)
	}
	return int(n), nil
}

// appendRepeats appends values joined by commas. It writes equal neighbours as "VALUE*COUNT".
func appendRepeats(b []byte, values []string) []byte {
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, values[i]...)
		if n > 1 {
			b = append(b, '*')
			b = strconv.AppendInt(b, int64(n), 10)
		}
		i += n
	}
	return b
}

// parseRepeats parses the format of appendRepeats.
func parseRepeats(text string) ([]string, error) {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		value, count, repeated := strings.Cut(item, "*")
		n := 1
		if repeated {
			var err error
			if n, err = parseNumber(count, maxSequence); err != nil || n == 0 {
				return nil, fmt.Errorf("repeat count %.40q: want a number from 1 to %d", count, maxSequence)
			}
		}
		if len(out)+n > maxSequence {
			return nil, fmt.Errorf("more than %d values", maxSequence)
		}
		for range n {
			out = append(out, value)
		}
	}
	return out, nil
}

// byteUnits are the binary suffixes, the largest first.
var byteUnits = []struct {
	suffix string
	shift  uint
}{{"Ti", 40}, {"Gi", 30}, {"Mi", 20}, {"Ki", 10}}

// FormatBytes prints an amount exactly, with the largest binary suffix that divides it ("64Gi",
// "131855096Ki", "5").
func FormatBytes(n uint64) string {
	for _, u := range byteUnits {
		if n != 0 && n&(1<<u.shift-1) == 0 {
			return strconv.FormatUint(n>>u.shift, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}

// RoughBytes prints an amount in the largest binary unit that is not larger than the amount. It
// rounds down to one decimal, and omits a decimal of 0: "1.5Gi", "64Gi", "1023".
func RoughBytes(n uint64) string {
	const units = "KMGTPE"
	unit := 0
	for unit < len(units) && n>>(10*(unit+1)) > 0 {
		unit++
	}
	if unit == 0 {
		return strconv.FormatUint(n, 10)
	}
	shift := 10 * unit
	text := strconv.FormatUint(n>>shift, 10)
	if tenth := n & (1<<shift - 1) * 10 >> shift; tenth > 0 {
		text += "." + strconv.FormatUint(tenth, 10)
	}
	return text + units[unit-1:unit] + "i"
}

// ParseBytes reads an amount of bytes with an optional binary suffix Ki, Mi, Gi or Ti.
func ParseBytes(text string) (uint64, error) {
	digits, shift := text, uint(0)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			digits, shift = rest, u.shift
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n<<shift>>shift != n {
		return 0, fmt.Errorf("%.40q: want a number of bytes below 2^64, with an optional suffix Ki, Mi, Gi or Ti", text)
	}
	return n << shift, nil
}

// spell returns the name of a value, or "?" if names has no name for it.
func spell[T ~uint8](v T, names []string) string {
	if int(v) >= len(names) {
		return "?"
	}
	return names[v]
}
