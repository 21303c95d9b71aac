//go:build programs

// Package programs names flannel's daemon, which is built as it is published, so that go.mod pins it.
package programs

import (
	_ "github.com/flannel-io/flannel"
)
