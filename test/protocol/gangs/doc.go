// Package gangs is a small exhaustive model of pods that start together: two gangs of two pods each
// on nodes with room for three. The scheduler holds, plans, reserves, permits and binds. The model
// includes the groups' objects, members that fail before and in their Bindings, members that die, a
// minimum that is raised, and a scheduler that crashes.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: places held for a part of a gang, a part that stays bound, an eviction from a
// complete gang, a member that is started and deleted without need, or a gang that fits and waits
// forever. Each Rule can be switched off, so that the tests show its purpose. testdata has the
// runs.
//
// The model is pure and shares no code with the scheduler: it states what the scheduler must do.
// Room is only a number of pods here. Package protocol models the nodes and the order in which
// their kubelets learn about pods.
package gangs
