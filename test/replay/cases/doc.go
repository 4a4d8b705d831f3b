// Package cases reads and writes recorded inputs and decisions of a kubelet. A Case has a machine,
// a kubelet configuration, device pools and a list of events. A Result has, for each event, the
// verdict and the state after it.
//
// Both are one JSON object per line (NDJSON), with fixed field names and order, so that equal
// values are equal bytes. Decoding is strict: unknown fields and absurd values are errors that name
// the line, the field and the value.
package cases
