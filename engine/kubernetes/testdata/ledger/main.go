// Command ledger is an action that notes in a file when it begins and when it is done: ledger FILE TIME.
// In between it works for a time. It repeats its input, and ends with 7.
package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := act(os.Args[1], os.Args[2]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(7)
}

func act(file, lasts string) error {
	long, err := time.ParseDuration(lasts)
	if err != nil {
		return err
	}
	if err := note(file, "begun\n"); err != nil {
		return err
	}
	_, _ = fmt.Print("one\r\ntwo\n")
	<-time.After(long / 2)
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		return err
	}
	<-time.After(long / 2)
	_, _ = fmt.Print("three")
	return note(file, "done\n")
}

func note(file, text string) error {
	ledger, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644) //nolint:gosec // tests read it as another user
	if err != nil {
		return err
	}
	if _, err := ledger.WriteString(text); err != nil {
		return err
	}
	return ledger.Close()
}
