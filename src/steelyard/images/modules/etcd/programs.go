//go:build programs

// The tool for members and snapshots is built as it is published; named here so that go.mod pins it.
package main

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
)
