// Package fates feeds the fields of the neighbours' kinds to the code that reads them, and says
// what becomes of each.
package fates
