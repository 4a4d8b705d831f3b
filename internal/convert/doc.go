// Package convert converts other schedulers' configurations to a configuration of berth-scheduler.
// For a setting without a counterpart, it writes a note that names an alternative if there is one.
// It has no side effects.
//
//   - read.go finds a Volcano configuration in its usual forms: the bare file, its ConfigMap, and
//     the parameters of a product's add-on.
//   - known.go has the notes about each plugin, action and argument.
//   - volcano.go writes the configuration.
package convert
