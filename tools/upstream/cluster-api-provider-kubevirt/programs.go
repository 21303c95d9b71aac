//go:build programs

// Package programs names the program of Cluster API's KubeVirt provider that is built as it is published, so that
// go.mod pins it.
package programs

import (
	_ "sigs.k8s.io/cluster-api-provider-kubevirt"
)
