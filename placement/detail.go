package placement

// Detail names the rule behind a Reason, one value for each distinct way to be refused.
type Detail uint8
