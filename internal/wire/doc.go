// Package wire translates between Kubernetes objects and the values of packages topology and
// placement, with one file per dialect. No other package does so: packages that import wire do not
// parse objects, and packages that wire imports do not know API types.
//
// Reading is strict: the package guesses no value. If a value that users or other programs write is
// invalid or contradicts another value, the error names the object, the field, the value and the
// expected form.
package wire
