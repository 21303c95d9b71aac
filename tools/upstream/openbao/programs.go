//go:build programs

// Package programs names the server of OpenBao that is built as it is published, so that go.mod pins it.
package programs

import (
	_ "github.com/openbao/openbao"
)
