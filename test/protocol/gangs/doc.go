// Package gangs is a small exhaustive model of pods that start together: two gangs of two pods each
// on nodes with room for three, a scheduler that holds, plans, reserves, permits and binds, the
// groups' objects, and what happens to them all: members that fail before and in their Bindings,
// members that die, a minimum that is raised, a scheduler that crashes.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: places held for a part of a gang, a part that stays bound, a gang torn that was
// whole, a member started and deleted for nothing, a gang that fits and is left waiting. Each Rule
// can be switched off, so that the tests show what it closes. testdata has the runs.
//
// The model is pure and shares no code with the scheduler: it states what that must do. Room is a
// number here; which node has it, and in what order its kubelet hears of pods, is what package
// protocol models.
package gangs
