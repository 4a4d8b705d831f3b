// Package machineview shows a machine as JSON for programs, and as a table, a tree and a drawing
// for people.
package machineview
