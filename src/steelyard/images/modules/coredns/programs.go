//go:build programs

// Package programs names CoreDNS, which is built as it is published, so that go.mod pins it.
package programs

import (
	_ "github.com/coredns/coredns"
)
