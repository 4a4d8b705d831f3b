// Package controlplane runs a Kubernetes control plane inside the calling process: etcd and
// kube-apiserver (core, aggregation and apiextensions, so that custom resources work), for the demo
// and for tests.
//
// The API server listens on one free port of 127.0.0.1; etcd listens on unix sockets only.
// Everything on disk is in one temporary directory that Stop removes, or in one that the caller
// keeps: then a control plane whose process was killed is continued by the next, at the same URL
// and with the same data, and etcd may be a process of its own (StartEtcd, Options.Etcd).
// Authentication is by client certificate, authorisation is Node and RBAC, so that access rules can
// be tested as they are.
//
// There is no controller manager: objects have no garbage collection by owner reference, nodes get
// no taints by condition (the admission plugin that adds them is off), service accounts get no
// tokens.
package controlplane
