// Package file is the resource type deployster/file: one file or directory
// below the plug "root".
//
// Nothing outside the plug is ever touched: every access goes through an
// os.Root, which follows no symbolic link out of it. Content is replaced
// atomically (a new file is written beside the old one and renamed over it), so
// readers see the old content or the new, never a part. A directory is only
// removed when it is empty.
package file

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/deployster-go/deployster/protocol"
)

// Summary says in one line what the type is for.
const Summary = "a file or directory with given content and mode, below a plug"

// plugPath is where the plug "root" appears in the container.
const plugPath = "/plug/root"

//go:embed schema.json
var configSchema []byte

// Config is the configuration of a resource.
type Config struct {
	Path      string  `json:"path"`
	Content   *string `json:"content"`
	Mode      string  `json:"mode"`
	Directory bool    `json:"directory"`
}

// Identity says which file a resource manages, and the property of its
// configuration that says so; thing is "" when that is not known.
func Identity(_ string, config map[string]any) (property, thing string) {
	path, _ := config["path"].(string)
	if path == "" {
		return "", ""
	}
	return "path", "path " + filepath.Clean(path)
}

// Type returns the resource type.
func Type() protocol.Type[Config] { return newType(plugPath) }

// newType is Type with the plug at another place.
func newType(plug string) protocol.Type[Config] {
	at := func(f func(*target, protocol.Request[Config]) error) func(context.Context, protocol.Request[Config]) error {
		return func(_ context.Context, r protocol.Request[Config]) error {
			t, err := open(plug, r.Config)
			if err != nil {
				return err
			}
			defer func() { _ = t.root.Close() }()
			return f(t, r)
		}
	}
	return protocol.Type[Config]{
		Plugs:        map[string]protocol.PlugRequest{"root": {ContainerPath: plugPath, Writable: true, Holds: true}},
		ConfigSchema: configSchema,
		Removable:    true, AcceptsUnknown: true, Network: protocol.NetworkNone, Identity: []string{"path"}, Replace: protocol.CreateFirst,
		State: func(_ context.Context, r protocol.Request[Config]) (protocol.StateOutput, error) {
			c, unread, err := known(r)
			if err != nil {
				return protocol.StateOutput{}, err
			}
			t, err := open(plug, c)
			if err != nil {
				return protocol.StateOutput{}, err
			}
			defer func() { _ = t.root.Close() }()
			t.unread = unread
			return t.state(r.Ensure)
		},
		Actions: map[string]func(context.Context, protocol.Request[Config]) error{
			"create-file":            at((*target).writeFile),
			"update-file":            at((*target).writeFile),
			"replace-with-file":      at((*target).replace),
			"create-directory":       at((*target).makeDirectory),
			"replace-with-directory": at((*target).replace),
			"change-mode":            at((*target).changeMode),
			"remove-file":            at((*target).remove),
			"remove-directory":       at((*target).remove),
		},
	}
}

// known is a configuration of which the content may not be known yet. All else must be.
func known(r protocol.Request[Config]) (c Config, unread bool, err error) {
	c = r.Config
	for _, path := range r.Unknown {
		if path != "content" {
			return c, false, fmt.Errorf("its %s is not known yet", path)
		}
		c.Content, unread = new(string), true
	}
	return c, unread, nil
}

// target is what one configuration is about.
type target struct {
	root    *os.Root
	path    string // relative to root
	config  Config
	mode    fs.FileMode // of the configuration, or the default for something new
	hasMode bool        // the configuration says which
	unread  bool        // the content is not known yet: a file is as configured but for that
}

func open(plug string, c Config) (*target, error) {
	if !filepath.IsLocal(c.Path) || filepath.Clean(c.Path) == "." {
		return nil, fmt.Errorf("path %q must be relative to the plug and stay below it", c.Path)
	}
	if c.Directory == (c.Content != nil) {
		return nil, errors.New(`either "content" or "directory: true" must be given (content: "" makes an empty file)`)
	}
	t := &target{path: filepath.Clean(c.Path), config: c, mode: 0o644}
	if c.Directory {
		t.mode = 0o755
	}
	if c.Mode != "" {
		mode, err := strconv.ParseUint(c.Mode, 8, 12)
		if err != nil {
			return nil, fmt.Errorf(`mode %q must be octal digits, such as "0644"`, c.Mode)
		}
		t.mode, t.hasMode = fileMode(uint32(mode)), true
	}
	var err error
	if t.root, err = os.OpenRoot(plug); err != nil {
		return nil, fmt.Errorf("opening the plug root: %w", err)
	}
	return t, nil
}

// found is what there is at the path.
type found struct {
	Path    string  `json:"path"`
	Kind    string  `json:"kind"` // "file", "directory", or what else it is
	Mode    string  `json:"mode"`
	Size    *int64  `json:"size,omitempty"`   // files only
	SHA256  string  `json:"sha256,omitempty"` // files only
	Content *string `json:"content,omitempty"`
	IsDir   *bool   `json:"directory,omitempty"`
}

// inspect observes the path without following a symbolic link at its end; nil
// means that there is nothing.
func (t *target) inspect() (*found, error) {
	info, err := t.root.Lstat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspecting %s: %w", t.path, err)
	}
	f := &found{Path: t.path, Kind: kind(info.Mode()), Mode: octal(info.Mode())}
	if f.Kind != "file" {
		return f, nil
	}
	file, err := t.root.Open(t.path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", t.path, err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	// Most files are small, and asked for often: without a buffer each would take one of
	// 32 KiB, as it would if the file could be asked to write itself.
	size, err := io.CopyBuffer(hash, struct{ io.Reader }{file}, make([]byte, min(info.Size()+1, 32<<10)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", t.path, err)
	}
	f.Size, f.SHA256 = &size, hex.EncodeToString(hash.Sum(nil))
	return f, nil
}

func (t *target) state(ensure protocol.Ensure) (protocol.StateOutput, error) {
	f, err := t.inspect()
	if ensure == protocol.Absent && errors.Is(err, syscall.ENOTDIR) {
		f, err = nil, nil // nothing can be below a file
	}
	if err != nil {
		return protocol.StateOutput{}, err
	}
	if ensure == protocol.Absent {
		switch {
		case f == nil:
			return protocol.AnswerValid(map[string]any{"path": t.path})
		case f.Kind == "directory":
			return protocol.AnswerStale(f, protocol.Do("remove-directory", "remove directory "+t.path))
		}
		return protocol.AnswerStale(f, protocol.Do("remove-file", "remove "+f.Kind+" "+t.path))
	}
	want := "file"
	if t.config.Directory {
		want = "directory"
	}
	switch {
	case f == nil:
		return t.planned(nil, want, protocol.Do("create-"+want, fmt.Sprintf("create %s %s with mode %s", want, t.path, octal(t.mode))))
	case f.Kind != want:
		return t.planned(f, want, protocol.DoDestroy("replace-with-"+want, fmt.Sprintf("replace the %s %s with a %s", f.Kind, t.path, want)))
	case want == "file" && !t.unread && f.SHA256 != t.sha256() && *t.config.Content != f.summary():
		return t.planned(f, want, protocol.Do("update-file", "update file "+t.path))
	case t.hasMode && f.Mode != octal(t.mode):
		return t.planned(f, want, protocol.Do("change-mode", fmt.Sprintf("change mode of %s from %s to %s", t.path, f.Mode, octal(t.mode))))
	}
	return protocol.AnswerValid(f)
}

// planned is the answer that an action is needed, with what will be there after it.
func (t *target) planned(f *found, want string, do protocol.Action) (protocol.StateOutput, error) {
	will := found{Path: t.path, Kind: want, Mode: octal(t.mode)}
	if f != nil && f.Kind == want && !t.hasMode {
		will.Mode = f.Mode
	}
	if want == "file" {
		size := int64(len(*t.config.Content))
		will.Size, will.SHA256 = &size, t.sha256()
	}
	var there any
	if f != nil {
		there = t.described(f)
	}
	out, err := protocol.AnswerStale(there, do)
	if err != nil {
		return out, err
	}
	if t.unread {
		return out.Planned(will, "size", "sha256")
	}
	return out.Planned(will)
}

// described says what was found in the configuration's own words, so that a
// diff of the two shows what differs. The content of a file that was found is
// never shown: only that it is the wanted one, or its size and hash.
func (t *target) described(f *found) *found {
	isDir := f.Kind == "directory"
	f.IsDir = &isDir
	if t.config.Content != nil && f.Size != nil {
		content := f.summary()
		if f.SHA256 == t.sha256() {
			content = *t.config.Content
		}
		f.Content = &content
	}
	return f
}

// summary is what is shown of the content of a file that was found. As a configured content it
// means that very content: what ignore_changes leaves as it is comes back so.
func (f *found) summary() string { return fmt.Sprintf("(%d bytes, sha256 %.12s)", *f.Size, f.SHA256) }

func (t *target) sha256() string {
	sum := sha256.Sum256([]byte(*t.config.Content))
	return hex.EncodeToString(sum[:])
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	default:
		return "special file"
	}
}

// octal writes the permissions as chmod takes them, four digits.
func octal(m fs.FileMode) string {
	bits := uint32(m.Perm())
	for i, special := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if m&special != 0 {
			bits |= 0o1000 << i
		}
	}
	return fmt.Sprintf("%04o", bits)
}

func fileMode(bits uint32) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	for i, special := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if bits&(0o1000<<i) != 0 {
			m |= special
		}
	}
	return m
}
