// Package e2e holds the tests that need a real API server and hollow nodes, in one binary, because
// linking that much of Kubernetes takes long.
package e2e
