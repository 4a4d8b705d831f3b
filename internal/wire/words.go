package wire

// What the scheduler's events and the command line say about nodes. The texts are constant, so that
// equal ones add up.
const (
	// NoReport: the node has no NodeTopology.
	NoReport = "no NodeTopology: is berth-agent running there?"
	// NoSignOfLife: the agent has been silent for longer than a report may be relied on.
	NoSignOfLife = "its berth-agent gave no sign of life for too long"
	// WaitsForReport: the answer depends on something that the next report will tell.
	WaitsForReport = "waiting for its next report"
)
