// Package convert turns other schedulers' configurations into one of berth-scheduler's. For
// everything that has no counterpart it notes what to do instead. It has no side effects: text in,
// text and notes out.
//
//   - read.go takes a Volcano configuration out of what people have: the bare file, its ConfigMap,
//     and the parameters of a product's add-on.
//   - known.go is what to say about each plugin, action and argument.
//   - volcano.go writes the configuration.
package convert
