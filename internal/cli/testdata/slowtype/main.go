// Command slowtype is a resource type for tests of what happens in the middle
// of an action. A resource is a file below the plug "dir"; its action can be
// held up, and notices when it is not alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deployster-go/deployster/protocol"
)

type config struct {
	Value string `json:"value"`
}

func main() {
	t := protocol.Type[config]{
		Plugs:   map[string]protocol.PlugRequest{"dir": {ContainerPath: "/dir", Writable: true}},
		State:   state,
		Actions: map[string]func(context.Context, protocol.Request[config]) error{"set": set},
	}
	args := os.Args[1:]
	var in io.Reader = os.Stdin
	if len(args) > 0 && args[0] == "bare" { // for benchmarks: run without anything attached
		args, in = args[1:], strings.NewReader(`{"name":"bare","type":"t","version":"1","verbose":false,"workspace":"/","config":{"value":"x"},"staleState":{}}`)
	}
	os.Exit(t.Run(context.Background(), args, in, os.Stdout, os.Stderr))
}

func state(_ context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
	text, err := os.ReadFile(filepath.Join("/dir", r.Name))
	if err == nil && string(text) == r.Config.Value {
		return protocol.AnswerValid(map[string]any{"value": r.Config.Value})
	}
	return protocol.AnswerStale(nil, protocol.Do("set", "set the value"))
}

func set(_ context.Context, r protocol.Request[config]) error {
	at := func(ending string) string { return filepath.Join("/dir", r.Name+ending) }
	busy, err := os.OpenFile(at(".busy"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, os.WriteFile("/dir/two-at-once", nil, 0o600))
	}
	if err := busy.Close(); err != nil {
		return err
	}
	fmt.Fprintln(r.Stdout, "begun")
	for {
		if _, err := os.Stat(at(".hold")); errors.Is(err, os.ErrNotExist) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := os.WriteFile(at(""), []byte(r.Config.Value), 0o600); err != nil {
		return err
	}
	return os.Remove(at(".busy"))
}
