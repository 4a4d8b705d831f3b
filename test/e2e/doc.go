// Package e2e holds the tests that need a real API server and hollow nodes, in one binary, because
// linking Kubernetes takes long.
package e2e
