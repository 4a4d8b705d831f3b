// Package wire translates between Kubernetes objects and the values of packages topology and
// placement, one file per dialect. It is the only translator: what lies above it never parses, what
// lies below it never sees an API type.
//
// Reading is strict. A value that cannot be understood, or that contradicts another, is a
// FieldError naming the object, the field, the value and what would be right; nothing is guessed
// and nothing is dropped.
package wire
