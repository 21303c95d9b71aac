//go:build programs

// Package programs names the program of Crossplane's provider-kubernetes that is built as it is published, so that
// go.mod pins it.
package programs

import (
	_ "github.com/crossplane-contrib/provider-kubernetes/cmd/provider"
)
