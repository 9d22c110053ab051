// Package planfile is the saved form of a plan: a JSON file that says what an
// apply will do, and what it must find for that.
//
// The file goes from one process to another, perhaps by way of a person or of
// another machine, and the other one acts on it without asking. Therefore
// nothing in it is taken on trust. Its first lines hold a digest of all its
// bytes, and Decode accepts only what Encode writes: that form, those keys, that
// notation, save for the space between them. That shows edits and
// damage; it is no signature: who can write the file can make another plan.
//
// Values are there for people, with secrets masked. What is compared are
// hashes, which cover the secrets too, keyed with a salt that each file has of
// its own (Salt). Somebody who has the file can still try out guesses of a weak
// secret, so it is to be kept like one.
package planfile

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// Version is that of the format. It grows with every change of it: a plan that
// is not understood wholly must not be applied.
const Version = 3

// unlogged is the version whose files do not say what was in the log.
const unlogged = 2

// MaxSize is how large a file may be, in bytes.
const MaxSize = 64 << 20

// MaxDepth is how deep values may be nested in a file. A state may be so deep
// (protocol.MaxDepth), and lies some levels down itself.
const MaxDepth = protocol.MaxDepth + 4

// format is how a file says what it is.
const format = "deployster-plan"

// File is a saved plan.
type File struct {
	Digest     string // "sha256:…" of the file; set by Encode and Decode
	CreatedAt  time.Time
	Deployster string // version that made it
	Salt       Salt
	Run        string // ULID of the run that made it
	Engine     Engine
	Server     string // as it was named through which the engine was asked; "" is none
	Log        Log    // as it was when the plan was made; zero in files of an older version

	Manifests    []string // paths, relative to the workspace where they are in it
	ManifestHash string
	Definitions  map[string]string // resource → hash of its part of the manifest
	Includes     map[string]string // file → hash of its text, of those that resources which are left open may include; nil where none is open, or an older version made it
	Targets      []string          // as --target named them; none is everything

	Given     []Variable        // in the order of the command line
	Variables map[string]string // name → hash of its value, wherever that came from

	Resources []report.ResourcePlan // in graph order; none Failed or Skipped
}

// Engine is where the containers of a plan ran: what they saw there need not be
// so elsewhere.
type Engine struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Network string `json:"network,omitempty"` // "" is the engine's default
	Remote  bool   `json:"remote,omitempty"`  // it did not see the files of the machine
}

// Log is where a deployment log was.
type Log struct {
	ID    string `json:"id"`
	Event int64  `json:"event"` // the last one; 0 is an empty log
}

// Made is about when the plan began to be made.
func (f *File) Made() time.Time {
	if id, err := ulid.ParseStrict(f.Run); err == nil {
		return ulid.Time(id.Time())
	}
	return f.CreatedAt
}

// Place describes for people where the plan was made.
func (f *File) Place() string {
	if f.Server == "" {
		return f.Engine.String()
	}
	return fmt.Sprintf("%s of server %s", f.Engine, f.Server)
}

// String describes the engine for people.
func (e Engine) String() string {
	text := fmt.Sprintf("%s at %s", e.Name, e.Address)
	if e.Remote {
		text += " (remote)"
	}
	if e.Network != "" {
		text += " with --network " + e.Network
	}
	return text
}

// Variable is a --var or a --var-file, without the value.
type Variable struct {
	Name string `json:"name,omitempty"` // of --var
	File string `json:"file,omitempty"` // of --var-file: path as in Manifests
}

// Plan returns what the runner planned.
func (f *File) Plan() *report.Plan { return &report.Plan{Run: f.Run, Resources: f.Resources} }

// Bound returns what an apply is bound to, by ResourcePlan.Node.
func (f *File) Bound() map[string]report.ResourcePlan {
	bound := make(map[string]report.ResourcePlan, len(f.Resources))
	for _, r := range f.Resources {
		bound[r.Node()] = r
	}
	return bound
}

// Replaced names the resources that the plan removes, and makes again.
func (f *File) Replaced() []string {
	return f.names(func(r report.ResourcePlan) bool { return r.Replace })
}

// Pruned names what the plan removes since the manifests no longer declare it.
func (f *File) Pruned() []string {
	return f.names(func(r report.ResourcePlan) bool { return r.MadeBy != "" })
}

func (f *File) names(which func(report.ResourcePlan) bool) (names []string) {
	for _, r := range f.Resources {
		if which(r) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Open names the resources that the plan leaves open: what is done to them is
// known only after others are applied.
func (f *File) Open() []string {
	return f.names(func(r report.ResourcePlan) bool { return r.Status == report.Unknown })
}

// Salt is the key of a file's hashes, in hexadecimal: without it the hash of a
// password would be the same everywhere, and could be looked up.
type Salt string

const saltBytes = 16

// NewSalt takes a salt from a source of randomness.
func NewSalt(random io.Reader) (Salt, error) {
	var salt [saltBytes]byte
	if _, err := io.ReadFull(random, salt[:]); err != nil {
		return "", fmt.Errorf("making the salt of a plan: %w", err)
	}
	return Salt(hex.EncodeToString(salt[:])), nil
}

// Fingerprint identifies a JSON-like value, in hexadecimal: values with the
// same JSON have the same. It fails for what JSON cannot express.
func (s Salt) Fingerprint(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("it cannot be written as JSON: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(s))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// Is reports whether a file says of itself that it is a saved plan, also when it
// is damaged further on. It reads no more than it needs for that, and at most
// 1 MiB.
func Is(r io.Reader) bool {
	dec := json.NewDecoder(io.LimitReader(r, 1<<20))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
		if key == "format" {
			return string(value) == `"`+format+`"`
		}
	}
	return false
}

// IsAt reports whether a file is a saved plan. What comes through a pipe can be
// read only once, and is none.
func IsAt(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return Is(f)
}

// Refuse fails where the text of what is to be a manifest is a saved plan, also
// one that an editor put a byte order mark before.
func Refuse(name string, text []byte) error {
	plan, marked := bytes.CutPrefix(text, []byte("\xef\xbb\xbf"))
	switch {
	case !Is(bytes.NewReader(plan)):
		return nil
	case marked:
		return fmt.Errorf("%s is a saved plan with a byte order mark before it: it was changed after it was made; plan again", name)
	default:
		return fmt.Errorf("%s is a saved plan and no manifest", name)
	}
}

// Encode returns the file's bytes, and sets its digest. It fails when Decode
// would not read them.
func (f *File) Encode() ([]byte, error) {
	data, err := f.encode()
	if err != nil {
		return nil, err
	}
	if _, err := Decode(data); err != nil {
		return nil, fmt.Errorf("the plan could not be read again, as when a text in it is not UTF-8, so it is of no use: it %w", err)
	}
	return data, nil
}

func (f *File) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f.document()); err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	f.Digest = digest(b.Bytes())
	data := bytes.Replace(b.Bytes(), digestField(""), digestField(f.Digest), 1)
	most, what := MaxSize, "can be saved"
	if f.Server != "" { // it is sent as an object when it is applied
		most, what = objects.MaxSize, "are taken by a server"
	}
	if len(data) > most {
		return nil, fmt.Errorf("the plan has %d bytes; at most %d %s: plan parts of it with --target", len(data), most, what)
	}
	return data, nil
}

// digestField is how the digest stands in the file. It is near the beginning,
// before anything that is not fixed, so the first one found is it.
func digestField(value string) []byte { return []byte(`"digest": "` + value + `"`) }

// digest is that of a file whose digest is left empty.
func digest(blank []byte) string {
	sum := sha256.Sum256(blank)
	return "sha256:" + hex.EncodeToString(sum[:])
}
