package gang

import (
	fwk "k8s.io/kube-scheduler/framework"
)

const memberKey fwk.StateKey = "Berth/gang-member"

// memberState marks the cycle of a pod that is tried as a member of its gang.
type memberState struct{ node string }

// Clone implements fwk.StateData.
func (m *memberState) Clone() fwk.StateData { return m }

// Mark notes in a cycle that its pod is tried as a member; node is the planned one, "" where it is
// held.
func Mark(state fwk.CycleState, node string) { state.Write(memberKey, &memberState{node}) }

// Unmark notes that the cycle's pod goes its own way.
func Unmark(state fwk.CycleState) { state.Delete(memberKey) }

// Planned returns the node that is planned for the cycle's pod, and whether it is tried as a member
// at all.
func Planned(state fwk.CycleState) (node string, member bool) {
	data, err := state.Read(memberKey)
	if err != nil {
		return "", false
	}
	m, ok := data.(*memberState)
	if !ok {
		return "", false
	}
	return m.node, true
}
