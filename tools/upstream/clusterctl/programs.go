//go:build programs

// Package programs names the program of Cluster API that people use, built as it is published, so that go.mod pins it.
package programs

import (
	_ "sigs.k8s.io/cluster-api/cmd/clusterctl"
)
