//go:build programs

// Package programs names the programs of Crossplane that are built as they are published, so that go.mod pins them.
package programs

import (
	_ "github.com/crossplane/crossplane/v2/cmd/crank"
	_ "github.com/crossplane/crossplane/v2/cmd/crossplane"
)
