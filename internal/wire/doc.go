// Package wire translates between Kubernetes objects and the values of packages topology and
// placement. Packages that import wire use its results instead of reading the objects' rules and
// amounts themselves. Only ResourceClaims are translated elsewhere, in package claims.
//
// Reading is strict. If a value that users or other programs write is invalid or contradicts
// another value, the error names the object, the field, the value and the expected form. Reports of
// other projects' exporters lack some values, such as the ids of CPUs. Only for these reports, the
// package invents or assumes values.
package wire
