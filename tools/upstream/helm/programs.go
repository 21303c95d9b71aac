//go:build programs

// Package programs names Helm's command, built as it is published, so that go.mod pins it.
package programs

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
