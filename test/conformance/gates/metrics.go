//go:build !kube133 && !kube134 && !kube135

package main

import metricsfeatures "k8s.io/component-base/metrics/features"

// This package exists since 1.36.
func init() { late = append(late, metricsfeatures.AddFeatureGates) }
