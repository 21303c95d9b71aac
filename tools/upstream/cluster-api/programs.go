//go:build programs

// Package programs names the programs of Cluster API that are built as they are published, so that go.mod pins them.
package programs

import (
	_ "sigs.k8s.io/cluster-api"
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm"
	_ "sigs.k8s.io/cluster-api/controlplane/kubeadm"
)
