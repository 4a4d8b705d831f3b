package shadow

import (
	"maps"
	"slices"
)

// Claimed is a pod with ResourceClaims, and how its devices lie to its CPUs and memory.
type Claimed struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Scheduler string `json:"scheduler"`
	// Alignment is that of the worst device, and Why describes it.
	Alignment string `json:"alignment"`
	Why       string `json:"why"`
}

// Claims counts pods with ResourceClaims since the beginning.
type Claims struct {
	// Pods counts them by alignment.
	Pods map[string]int `json:"pods"`
	// NotLooked counts pods whose claims could not be read.
	NotLooked int `json:"notLooked"`
	// Misaligned are the last pods with a device away from their CPUs or memory; the newest first.
	Misaligned []Claimed `json:"misaligned"`
}

// AlignmentMisaligned is the alignment of which pods are listed.
const AlignmentMisaligned = "misaligned"

// maxMisaligned is how many pods are listed.
const maxMisaligned = 128

// Claimed counts a pod.
func (b *Book) Claimed(c Claimed) {
	if b.claims.Pods == nil {
		b.claims.Pods = map[string]int{}
	}
	b.claims.Pods[c.Alignment]++
	if c.Alignment != AlignmentMisaligned {
		return
	}
	if len(b.claims.Misaligned) >= maxMisaligned {
		b.claims.Misaligned = slices.Delete(b.claims.Misaligned, 0, 1)
	}
	b.claims.Misaligned = append(b.claims.Misaligned, c)
}

// ClaimsNotLooked counts a pod whose claims could not be read.
func (b *Book) ClaimsNotLooked() { b.claims.NotLooked++ }

// claimed is what a View tells of claims; nil before any pod had some.
func (b *Book) claimed() *Claims {
	if b.claims.Pods == nil && b.claims.NotLooked == 0 {
		return nil
	}
	out := &Claims{Pods: maps.Clone(b.claims.Pods), NotLooked: b.claims.NotLooked, Misaligned: append([]Claimed{}, b.claims.Misaligned...)}
	slices.Reverse(out.Misaligned)
	return out
}
