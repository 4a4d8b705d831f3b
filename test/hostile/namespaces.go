package main

import "github.com/berth-dev/berth/test/tenant"

const (
	// friends is the namespace of the friendly load.
	friends = "friends"
	// quotaCPUs is what the tenant's pods may ask for together, and quotaPods how many there may
	// be.
	quotaCPUs = 12
	quotaPods = 120
)

// manifests are the namespaces, and what an administrator says about the tenant.
var manifests = append([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+friends+"}\n---\n"), tenant.Manifests(quotaCPUs, quotaPods)...)
