// Package machineview shows a machine: as the JSON document that programs read, as a table and a
// tree for people, and as a drawing.
package machineview
