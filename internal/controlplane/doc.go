// Package controlplane runs a Kubernetes control plane inside the calling process: etcd and
// kube-apiserver (core, aggregation and apiextensions, so that custom resources work), for the demo
// and for tests.
//
// The API server listens on one free port of 127.0.0.1; etcd listens on unix sockets only. All
// files are in one temporary directory that Stop removes, or in one that the caller keeps. In the
// second case a new control plane continues after the process was killed, at the same URL and with
// the same data, and etcd may be its own process (StartEtcd, Options.Etcd). Authentication is by
// client certificate, authorisation is Node and RBAC, so that access rules can be tested.
//
// There is no controller manager: there is no garbage collection by owner reference, nodes get no
// taints by condition (the admission plugin that adds them is off), and service accounts get no
// tokens.
package controlplane
