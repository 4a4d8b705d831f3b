// Package wire translates between Kubernetes objects and the values of packages topology and
// placement, with one file per dialect. No other package does so: packages that import wire do not
// parse objects, and packages that wire imports do not know API types.
//
// Reading is strict. If a value is invalid or contradicts another value, the error is a FieldError
// that names the object, the field, the value and the expected form. The package guesses no value
// and ignores no value.
package wire
