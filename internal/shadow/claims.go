package shadow

import (
	"maps"
	"slices"
)

// Claimed is a pod with ResourceClaims, and the alignment of its devices with its CPUs and memory.
type Claimed struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Scheduler string `json:"scheduler"`
	// Alignment is the worst alignment of the pod's devices. Why describes it.
	Alignment string `json:"alignment"`
	Why       string `json:"why"`
}

// Claims counts the pods with ResourceClaims since the Book was created.
type Claims struct {
	// Pods is the number of pods with ResourceClaims, by alignment.
	Pods map[string]int `json:"pods"`
	// NotLooked is the number of pods whose claims could not be read.
	NotLooked int `json:"notLooked"`
	// Misaligned are the last pods with a device on another NUMA node than their CPUs or memory,
	// the newest first.
	Misaligned []Claimed `json:"misaligned"`
}

// AlignmentMisaligned is the alignment of the pods in Claims.Misaligned.
const AlignmentMisaligned = "misaligned"

// maxMisaligned is the maximum number of pods in Claims.Misaligned.
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

// claimed returns the Claims for a View, or nil if no pod has had claims yet.
func (b *Book) claimed() *Claims {
	if b.claims.Pods == nil && b.claims.NotLooked == 0 {
		return nil
	}
	out := &Claims{Pods: maps.Clone(b.claims.Pods), NotLooked: b.claims.NotLooked, Misaligned: append([]Claimed{}, b.claims.Misaligned...)}
	slices.Reverse(out.Misaligned)
	return out
}
