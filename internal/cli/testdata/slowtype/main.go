// Command slowtype is a resource type for tests of what happens in the middle
// of an action. A resource is a file below the plug "dir"; its action can be
// held up, and notices when it is not alone, and its state can be made to hang.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/protocol"
)

type config struct {
	Value string `json:"value"`
	Steps int    `json:"steps"` // 2: something else is done before the value is set
}

func main() {
	t := protocol.Type[config]{
		Plugs:     map[string]protocol.PlugRequest{"dir": {ContainerPath: "/dir", Writable: true}},
		Removable: true,
		Network:   protocol.NetworkNone,
		State:     state,
		Actions:   map[string]func(context.Context, protocol.Request[config]) error{"prepare": prepare, "set": set, "remove": remove},
	}
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "fixed" { // the image of a type that cannot remove
		t.Removable, args = false, args[1:]
	}
	if len(args) > 0 && args[0] == "one-shot" { // the image of a type that does not serve
		if args = args[1:]; len(args) == 0 {
			fmt.Println(`{"plugs":{"dir":{"container_path":"/dir","writable":true}},"network":"none","removable":true,"state_action":{"args":["state"]}}`)
			return
		}
	}
	if len(args) > 0 && args[0] == "chatter" { // no type at all: a command
		chatter(os.Stdout)
		return
	}
	if len(args) > 0 && args[0] == "stay" { // no type either: it runs until it is stopped
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		return
	}
	if len(args) > 0 && args[0] == "keeping" { // the image of a type that finds things by what it kept, which is secret
		keep(&t)
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "spy" { // the image of a type that looks for what it may not see
		t.State, args = spy, args[1:]
	}
	if len(args) > 2 && args[0] == "tooled" { // the image of a type whose actions run another image
		tool, declares := args[1], args[2] == "declares"
		if args = args[3:]; len(args) == 0 {
			fmt.Print(`{"plugs":{"dir":{"container_path":"/dir","writable":true}},"removable":true,"state_action":{"args":["state"]}`)
			if declares {
				fmt.Printf(`,"action_images":[%q]`, tool)
			}
			fmt.Println("}")
			return
		}
		t.State = func(ctx context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
			out, err := state(ctx, r)
			for i := range out.Actions {
				out.Actions[i].Image = tool
			}
			return out, err
		}
	}
	if len(args) > 0 && args[0] == "louder" { // another version of that image, which does not do what is asked
		t.Actions["set"] = func(_ context.Context, r protocol.Request[config]) error {
			return os.WriteFile(filepath.Join("/dir", r.Name), []byte(r.Config.Value+"!"), 0o600)
		}
		args = args[1:]
	}
	var in io.Reader = os.Stdin
	if len(args) > 0 && args[0] == "bare" { // for benchmarks: run without anything attached
		args, in = args[1:], strings.NewReader(`{"name":"bare","type":"t","version":"1","verbose":false,"workspace":"/","config":{"value":"x"},"staleState":{}}`)
	}
	os.Exit(t.Run(context.Background(), args, in, os.Stdout, os.Stderr))
}

// chatter prints a line that is longer than anybody keeps.
func chatter(to io.Writer) { fmt.Fprintln(to, strings.Repeat("y", 200_000)) }

func state(_ context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
	if r.Config.Value == "chatter" {
		chatter(r.Stderr)
	}
	gone(r.Name + ".hang")
	text, err := os.ReadFile(filepath.Join("/dir", r.Name))
	found := map[string]any{"value": string(text)}
	switch {
	case r.Ensure == protocol.Absent && errors.Is(err, os.ErrNotExist):
		return protocol.AnswerValid(nil)
	case r.Ensure == protocol.Absent:
		return protocol.AnswerStale(found, protocol.Do("remove", "remove the value"))
	case err == nil && string(text) == r.Config.Value:
		return protocol.AnswerValid(found)
	}
	if r.Config.Steps > 1 {
		return protocol.AnswerStale(nil, protocol.Do("prepare", "do nothing yet"), protocol.Do("set", "set the value"))
	}
	return protocol.AnswerStale(nil, protocol.Do("set", "set the value"))
}

// keep has the files of resources called by random names, which are kept.
func keep(t *protocol.Type[config]) {
	t.Keeps, t.Adoptable, t.StateSchema = true, true, json.RawMessage(`{"properties":{"file":{"writeOnly":true}}}`)
	file := func(r protocol.Request[config]) string {
		if imported, is := r.Kept["state"].(map[string]any); is { // from a state of Terraform
			return fmt.Sprint(imported["id"])
		}
		return fmt.Sprint(r.Kept["file"])
	}
	t.State = func(_ context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
		if r.Adopt != "" {
			r.Kept = map[string]any{"file": r.Adopt}
			defer func() { _ = r.Keep(r.Kept) }()
		}
		if name := marked(r.ID); r.Interrupted && len(r.Kept) == 0 && name != "" { // the action did not live to say so
			r.Kept = map[string]any{"file": name}
			if err := r.Keep(r.Kept); err != nil {
				return protocol.StateOutput{}, err
			}
		}
		_, err := os.Stat(filepath.Join("/dir", file(r)))
		switch there := err == nil; {
		case there && r.Ensure == protocol.Absent:
			return protocol.AnswerStale(nil, protocol.Do("remove", "remove the file"))
		case there || r.Ensure == protocol.Absent:
			return protocol.AnswerValid(map[string]any{"file": file(r)})
		}
		return protocol.AnswerStale(nil, protocol.Do("set", "make a file"))
	}
	t.Actions["set"] = func(_ context.Context, r protocol.Request[config]) error {
		name := "file-" + rand.Text()
		fmt.Fprintln(r.Stdout, "a file for", r.ID)
		err := os.WriteFile(filepath.Join("/dir", name), []byte(r.ID), 0o600)
		held := filepath.Join("/dir", r.Name+".hold")
		if _, there := os.Stat(held); there == nil {
			err = errors.Join(err, os.WriteFile(filepath.Join("/dir", r.Name+".busy"), nil, 0o600))
			gone(r.Name + ".hold")
		}
		return errors.Join(err, r.Keep(map[string]string{"file": name}))
	}
	t.Actions["remove"] = func(_ context.Context, r protocol.Request[config]) error {
		return os.Remove(filepath.Join("/dir", file(r)))
	}
}

// marked is the file that is marked with the id of a resource; "" is none.
func marked(id string) string {
	names, _ := filepath.Glob("/dir/file-*")
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && string(text) == id {
			return filepath.Base(name)
		}
	}
	return ""
}

func prepare(context.Context, protocol.Request[config]) error { return nil }

// spy is VALID if it finds nothing of Deployster's own in the workspace, which is
// also the plug, and can use its work directory.
func spy(_ context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
	var seen []string
	for _, directory := range []string{r.Workspace, "/dir"} {
		if _, err := os.Stat(filepath.Join(directory, "m.yaml")); err != nil {
			return protocol.StateOutput{}, err
		}
		for _, name := range []string{".deployster", r.Config.Value} {
			for _, pattern := range []string{"*", "*/*/*", "work/*/*/*.work/token"} {
				found, err := filepath.Glob(filepath.Join(directory, name, pattern))
				if err != nil {
					return protocol.StateOutput{}, err
				}
				seen = append(seen, found...)
			}
			shared := filepath.Join(directory, name, "deployments.db-shm")
			if file, err := os.OpenFile(shared, os.O_RDWR, 0); err == nil {
				seen = append(seen, fmt.Sprintf("lock on %s: %v", shared, syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_RDLCK, Len: 1})))
			}
			if err := os.WriteFile(filepath.Join(directory, name, "left"), nil, 0o600); err == nil {
				seen = append(seen, "wrote into "+filepath.Join(directory, name))
			}
		}
	}
	if len(seen) > 0 {
		return protocol.StateOutput{}, fmt.Errorf("it sees %q", seen)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("DEPLOYSTER_WORK"), "token"), []byte(r.Name), 0o600); err != nil {
		return protocol.StateOutput{}, err
	}
	return protocol.AnswerValid(map[string]any{})
}

func set(_ context.Context, r protocol.Request[config]) error {
	return alone(r, func(path string) error { return os.WriteFile(path, []byte(r.Config.Value), 0o600) })
}

func remove(_ context.Context, r protocol.Request[config]) error { return alone(r, os.Remove) }

// alone does something to the resource's file, unless another action does. It locks the file that
// tells that it is busy: the kernel unlocks the file of an action that is killed. Thus a file that
// is there without a lock was left by one that is dead.
func alone(r protocol.Request[config], do func(path string) error) error {
	at := func(ending string) string { return filepath.Join("/dir", r.Name+ending) }
	busy, err := lock(at(".busy"))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.Join(err, os.WriteFile("/dir/two-at-once", nil, 0o600))
	}
	if err != nil {
		return err
	}
	defer func() { _ = busy.Close() }()
	fmt.Fprintln(r.Stdout, "begun")
	if r.Config.Value == "chatter" {
		chatter(r.Stdout)
	}
	gone(r.Name + ".hold")
	return errors.Join(do(at("")), os.Remove(at(".busy")))
}

// lock creates and locks a file. One that was removed before it was locked is no lock.
func lock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		locked, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(there, locked) {
			return file, nil
		}
		_ = file.Close()
	}
}

// gone waits until there is no such file any more.
func gone(name string) {
	for {
		if _, err := os.Stat(filepath.Join("/dir", name)); errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
