// Package fields lists each field of the kinds of other projects: whether Berth reads it, refuses
// it by name, or reports that it has no effect. A test compares the table with the projects' own
// definitions, and docs/reference/dialects.md is written from it. The package does not know the
// code that reads the kinds, so that the tests of that code can use it.
package fields
