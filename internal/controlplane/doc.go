// Package controlplane runs a Kubernetes control plane for the demo and for tests: etcd and
// kube-apiserver, by default inside the calling process. The API server includes aggregation and
// apiextensions, so custom resources work.
//
// The API server listens on one free port of 127.0.0.1. etcd listens only on unix sockets. All
// files are in one temporary directory that Stop removes, or in a directory that is kept
// (Options.Keep). A new control plane in a kept directory continues at the same URL and with the
// same data. etcd can also be a separate process (StartEtcd, Options.Etcd), and so can the API
// server (Options.Server). The API server authenticates by client certificate and authorizes with
// Node and RBAC, so that access rules can be tested.
//
// There is no controller manager; the package controllers can replace it. Without controllers,
// owner references cause no garbage collection, and namespaces get no service accounts. New nodes
// do not get the taint not-ready, because no controller would remove it.
package controlplane
