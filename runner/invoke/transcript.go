package invoke

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/protocol"
)

// maxKept bounds what is kept of each stream of a call, in bytes: people are shown
// little of it, and referred to the file.
const maxKept = 256 << 20

// The suffixes of what is kept of a call, besides those of its output.
const (
	inputSuffix = ".stdin.json"
	workSuffix  = ".work" // the container's work directory

	stderrSuffix = ".stderr" // what a process that serves says of no call
)

// transcript is a file that keeps what a stream of a container said, up to
// maxKept; a stream that said nothing has none. It is for people who look into
// a failure: when it cannot be written the run goes on, and close says why.
type transcript struct {
	path string // "" keeps nothing
	file *os.File
	size int
	err  error
}

func (t *transcript) write(text string) {
	if text == "" || t.path == "" || t.err != nil || t.size > maxKept {
		return
	}
	if t.file == nil {
		if t.file, t.err = create(t.path); t.err != nil {
			return
		}
	}
	if t.size += len(text); t.size > maxKept {
		text = fmt.Sprintf("[cut off after %d MiB]\n", maxKept>>20)
	}
	_, t.err = t.file.WriteString(text)
}

// create makes a file, with the directory that it is in. One that is there and empty will
// do: nobody has written to it.
func create(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := os.OpenFile(path, flags, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		if info, failed := os.Lstat(path); failed == nil && info.Mode() == 0o600 && info.Size() == 0 {
			return os.OpenFile(path, os.O_WRONLY, 0)
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		return os.OpenFile(path, flags, 0o600)
	}
	return file, err
}

func (t *transcript) close() error {
	if t.file == nil {
		return t.err
	}
	return errors.Join(t.err, t.file.Close())
}

// keepInput writes down what a type is given, without secrets.
func (v *Invoker) keepInput(t *Target, p *pendingCall) error {
	if v.containers.Forget {
		return nil
	}
	document := p.stdin
	if len(t.Secret) > 0 {
		var err error
		if document, err = json.Marshal(t.Secret.blankInput(p.Input)); err != nil {
			return fmt.Errorf("encoding the input for the record: %w", err)
		}
	}
	var text bytes.Buffer
	if err := json.Indent(&text, v.discreet(document, p.Discreet, "kept", "adopt"), "", "  "); err != nil {
		return fmt.Errorf("formatting the input for the record: %w", err)
	}
	masked := v.secrets.Mask(text.String()) + "\n"
	p.inputSize = int64(len(masked))
	return os.WriteFile(p.path+inputSuffix, []byte(masked), 0o600)
}

// discreet is a document of the protocol without what Mask does not find: secrets that are
// too short to be looked for in any text, and all of what is kept of the resource, in some
// members, where that may be secret.
func (v *Invoker) discreet(document []byte, discreet bool, memory ...string) []byte {
	there := func(member string) bool { return bytes.Contains(document, []byte(member)) }
	if discreet = discreet && slices.ContainsFunc(memory, there); discreet || v.secrets.anyShort() {
		dec := json.NewDecoder(bytes.NewReader(document))
		dec.UseNumber()
		var object map[string]any
		if dec.Decode(&object) == nil && object != nil {
			for _, member := range memory {
				kept, _ := object[member].(map[string]any)
				if _, id := object[member].(string); discreet && (id || len(kept) > 0) {
					object[member] = Masked
				}
			}
			if text, err := json.Marshal(v.secrets.MaskValue(object)); err == nil {
				return text
			}
		}
	}
	return document
}

// blankedInput is an input with what stands in the place of secrets.
type blankedInput struct {
	protocol.StateInput
	Config     any `json:"config"`
	StaleState any `json:"staleState,omitempty"`
}

// blankInput returns the input of a call with the secrets in it replaced.
func (p Paths) blankInput(input any) any {
	switch in := input.(type) {
	case protocol.StateInput:
		return blankedInput{StateInput: in, Config: p.Blank(in.Config)}
	case protocol.ActionInput:
		return blankedInput{StateInput: in.StateInput, Config: p.Blank(in.Config), StaleState: p.Blank(in.StaleState)}
	default: // an init has no configuration yet
		return input
	}
}

// kept is the path of a transcript, "" where none is kept.
func (v *Invoker) kept(path string) string {
	if v.containers.Forget {
		return ""
	}
	return path
}
