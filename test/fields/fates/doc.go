// Package fates passes the fields of other projects' kinds to the code that reads them, and reports
// the fate of each field.
package fates
