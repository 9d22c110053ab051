// Command publish is a resource type for tests of what types see of a workspace. A resource is a copy
// of a file of the workspace, below the plug "site".
package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/protocol"
)

type config struct {
	From string `json:"from"`           // in the workspace
	Note string `json:"note,omitempty"` // a file of the workspace to write, which no type may
}

func main() {
	t := protocol.Type[config]{
		Plugs:     map[string]protocol.PlugRequest{"site": {ContainerPath: "/site", Writable: true}},
		Removable: true,
		State:     state,
		Actions: map[string]func(context.Context, protocol.Request[config]) error{
			"publish": publish,
			"remove":  func(_ context.Context, r protocol.Request[config]) error { return os.Remove(published(r)) },
		},
	}
	os.Exit(t.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func source(r protocol.Request[config]) string    { return filepath.Join(r.Workspace, r.Config.From) }
func published(r protocol.Request[config]) string { return filepath.Join("/site", r.Name) }

func state(_ context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
	there, err := os.ReadFile(published(r))
	is := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return protocol.StateOutput{}, err
	}
	if r.Ensure == protocol.Absent {
		if is {
			return protocol.AnswerStale(nil, protocol.Do("remove", "remove the page"))
		}
		return protocol.AnswerValid(nil)
	}
	wanted, err := os.ReadFile(source(r))
	if err != nil {
		return protocol.StateOutput{}, err
	}
	if is && bytes.Equal(there, wanted) {
		return protocol.AnswerValid(map[string]any{"size": len(there)})
	}
	return protocol.AnswerStale(nil, protocol.Do("publish", "publish "+r.Config.From))
}

func publish(_ context.Context, r protocol.Request[config]) error {
	if r.Config.Note != "" {
		if err := os.WriteFile(filepath.Join(r.Workspace, r.Config.Note), []byte("published\n"), 0o600); err != nil {
			return err
		}
	}
	wanted, err := os.ReadFile(source(r))
	if err != nil {
		return err
	}
	// By way of its work directory, to which it can write.
	prepared := filepath.Join(os.Getenv("DEPLOYSTER_WORK"), r.Name)
	if err := os.WriteFile(prepared, wanted, 0o600); err != nil {
		return err
	}
	if wanted, err = os.ReadFile(prepared); err != nil {
		return err
	}
	return os.WriteFile(published(r), wanted, 0o600)
}
