//go:build programs

// Package programs names the controller of External Secrets that is built as it is published, so that go.mod pins it.
package programs

import (
	_ "github.com/external-secrets/external-secrets"
)
