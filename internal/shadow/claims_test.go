package shadow

import (
	"fmt"
	"testing"
)

// TestClaims: pods are counted by alignment, and the last misaligned ones are listed.
func TestClaims(t *testing.T) {
	b := NewBook()
	if v := b.View(noon); v.Claims != nil {
		t.Errorf("nobody has claims: %+v", v.Claims)
	}
	b.ClaimsNotLooked()
	for i := range maxMisaligned + 3 {
		b.Claimed(Claimed{Name: fmt.Sprint("p", i), Alignment: AlignmentMisaligned})
	}
	b.Claimed(Claimed{Name: "near", Alignment: "aligned"})
	v := b.View(noon).Claims
	b.Claimed(Claimed{Alignment: AlignmentMisaligned})
	if v.Pods["aligned"] != 1 || v.Pods[AlignmentMisaligned] != maxMisaligned+3 || v.NotLooked != 1 {
		t.Errorf("%+v", v.Pods)
	}
	if len(v.Misaligned) != maxMisaligned || v.Misaligned[0].Name != fmt.Sprint("p", maxMisaligned+2) {
		t.Errorf("%d are listed, %+v first", len(v.Misaligned), v.Misaligned[0])
	}
}
