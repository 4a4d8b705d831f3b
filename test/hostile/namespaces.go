package main

import "github.com/berth-dev/berth/test/tenant"

const (
	// friends is the namespace of the friendly load.
	friends = "friends"
	// quotaCPUs is the CPU quota of the tenant, and quotaPods its quota of pods.
	quotaCPUs = 12
	quotaPods = 120
)

// manifests are the namespaces, and the administrator's rules for the tenant.
var manifests = append([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+friends+"}\n---\n"), tenant.Manifests(quotaCPUs, quotaPods)...)
