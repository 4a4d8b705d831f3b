// Package wire translates between Kubernetes objects and the values of packages topology and
// placement, one file per dialect. No other package translates: packages that import wire do not
// parse, and packages that it imports do not see API types.
//
// Reading is strict. A value that is invalid or contradicts another one is a FieldError that names
// the object, the field, the value and the expected form. The package guesses nothing and drops
// nothing.
package wire
