// Command pause holds the namespaces of a pod: it waits to be told to end, and reaps whatever is handed to it meanwhile.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 16)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range told {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if reaped, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || reaped <= 0 {
				break
			}
		}
	}
}
