// Package berth is the root of the module; it holds no code. README.md says what Berth is,
// docs/architecture.md how data flows through the folders, and imports_test.go which package may
// import which.
package berth
