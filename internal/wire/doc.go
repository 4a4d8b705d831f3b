// Package wire translates between Kubernetes objects and the values of packages topology and
// placement. Packages that import wire use its results instead of reading the objects' rules and
// amounts themselves. Only ResourceClaims are translated elsewhere, in package claims.
//
// Reading is strict: the package guesses no value. If a value that users or other programs write is
// invalid or contradicts another value, the error names the object, the field, the value and the
// expected form.
package wire
