// Command timeless copies databases of containerd, each to the path that follows it, without what tells when they were
// written: times become the one that comes first, in seconds, and nothing is left of what was there before. The same
// images give the same bytes.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments)%2 == 0 {
		return fmt.Errorf("usage: timeless SECONDS FROM TO ...")
	}
	seconds, err := strconv.ParseInt(arguments[0], 10, 64)
	if err != nil {
		return err
	}
	stamp, err := time.Unix(seconds, 0).UTC().MarshalBinary()
	if err != nil {
		return err
	}
	for place := 1; place < len(arguments); place += 2 {
		if err := rewrite(arguments[place], arguments[place+1], stamp); err != nil {
			return fmt.Errorf("%s: %w", arguments[place], err)
		}
	}
	return nil
}

func rewrite(from, to string, stamp []byte) error {
	source, err := bbolt.Open(from, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := bbolt.Open(to, 0o644, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return err
	}
	defer target.Close()
	err = source.View(func(read *bbolt.Tx) error {
		return read.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			return copyBucket(target, [][]byte{name}, bucket, stamp)
		})
	})
	if err != nil {
		return err
	}
	return target.Sync()
}

// copyBucket writes each bucket in a transaction of its own: those of one are written in no certain order.
func copyBucket(target *bbolt.DB, path [][]byte, from *bbolt.Bucket, stamp []byte) error {
	err := target.Update(func(written *bbolt.Tx) error {
		to, err := written.CreateBucketIfNotExists(path[0])
		for _, name := range path[1:] {
			if err != nil {
				return err
			}
			to, err = to.CreateBucketIfNotExists(name)
		}
		if err != nil {
			return err
		}
		if err := to.SetSequence(from.Sequence()); err != nil {
			return err
		}
		return from.ForEach(func(key, value []byte) error {
			if value == nil {
				return nil
			}
			if name := string(key); name == "createdat" || name == "updatedat" {
				value = stamp
			}
			return to.Put(key, value)
		})
	})
	if err != nil {
		return err
	}
	return from.ForEachBucket(func(name []byte) error {
		return copyBucket(target, append(path[:len(path):len(path)], name), from.Bucket(name), stamp)
	})
}
