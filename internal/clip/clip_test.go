package clip

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc..."},
		{"aé", 2, "a..."},
		{"aé", 3, "aé"},
		{"日本語", 4, "日..."},
		{"日本語", 0, "..."},
		{"日本語", 1, "..."},
		{"😀😀", 7, "😀..."},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80..."},
	} {
		if got := Text(c.text, c.most); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestNote(t *testing.T) {
	words := strings.Repeat("node a: x; ", 40)
	for text, want := range map[string]string{
		"short": "short", strings.Repeat("a", Event): strings.Repeat("a", Event),
		words:                           words[:295] + "...",
		strings.Repeat("é", 300):        strings.Repeat("é", 148) + "...",
		"a " + strings.Repeat("b", 400): "a " + strings.Repeat("b", 295) + "...",
	} {
		if got := Note(text); got != want || len(got) > Event {
			t.Errorf("Note(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	if got := Quoted("a\"b"); got != `"a\"b"` {
		t.Errorf("Quoted: %s", got)
	}
	long := strings.Repeat("é", 100)
	if got, want := Quoted("a"+long), `"a`+long[:78]+`"...`; got != want {
		t.Errorf("Quoted: %s, want %s", got, want)
	}
}

// FuzzText: a cut text does not exceed its limit, and a valid text stays valid.
func FuzzText(f *testing.F) {
	f.Add("aé日😀", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(0, most)
		got := Text(text, most)
		if got != text && len(got) > most+len("...") {
			t.Errorf("%q is longer than %d bytes", got, most)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q cut to %d is %q", text, most, got)
		}
		Quoted(text)
	})
}
