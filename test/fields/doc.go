// Package fields says what becomes of each field of the neighbours' own kinds: whether Berth reads
// it, refuses it by name, or tells that it has no effect. The table is held against the neighbours'
// own definitions, and docs/dialects.md is written from it. It knows nothing of the code that reads
// the kinds, so that the tests of that code can use it.
package fields
