package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/deployster-go/deployster/internal/phrase"
)

// Change is a commit to be made on a branch.
type Change struct {
	Branch   string
	Was      Hash              // the newest commit of the branch; "" if there is no such branch
	On       *Commit           // before this one
	Contents map[string][]byte // of the files that change, by path; On has each of them
	Message  string
	When     time.Time
	Sign     func(commit []byte) (signature string, err error) // nil signs nothing

	Author, Committer Person
}

// Person writes commits, or makes them.
type Person struct{ Name, Mail string }

func (p Person) at(when time.Time) object.Signature {
	return object.Signature{Name: p.Name, Email: p.Mail, When: when}
}

// ErrMoved is wrapped where a branch is not any more what it was when it was read.
var ErrMoved = errors.New("the branch was changed by somebody else at the same time")

// Push makes the commit and the branch what is pushed; nothing where somebody else has changed
// the branch.
func (r *Repository) Push(ctx context.Context, c Change) (Hash, error) {
	objects, commit, err := c.commit()
	if err != nil {
		return "", fmt.Errorf("making the commit: %w", err)
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, c.On.store, false).Encode(objects, 0); err != nil {
		return "", fmt.Errorf("packing the commit: %w", err)
	}
	return Hash(commit.String()), r.update(ctx, c.Branch, plumbing.NewHash(string(c.Was)), commit, &pack)
}

// Delete deletes a branch if its newest commit is the one it was.
func (r *Repository) Delete(ctx context.Context, branch string, was Hash) error {
	return r.update(ctx, branch, plumbing.NewHash(string(was)), plumbing.ZeroHash, nil)
}

func (r *Repository) update(ctx context.Context, branch string, was, is plumbing.Hash, pack io.Reader) error {
	endpoint := *r.endpoint
	session, err := r.client.NewReceivePackSession(&endpoint, r.auth)
	if err != nil {
		return r.explained(err)
	}
	all, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return r.explained(err)
	}
	name := plumbing.NewBranchReferenceName(branch)
	if now := all.References[name.String()]; now != was {
		return ErrMoved
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(all.Capabilities)
	if is.IsZero() {
		if !all.Capabilities.Supports(capability.DeleteRefs) {
			return errors.New("the server lets nobody delete branches")
		}
		_ = request.Capabilities.Set(capability.DeleteRefs)
	}
	request.Commands = []*packp.Command{{Name: name, Old: was, New: is}}
	if pack != nil {
		request.Packfile = io.NopCloser(pack)
	}
	var said words
	for _, c := range []capability.Capability{capability.Sideband64k, capability.Sideband} {
		if all.Capabilities.Supports(c) {
			_ = request.Capabilities.Set(c)
			request.Progress = &said
			break
		}
	}
	report, err := session.ReceivePack(ctx, request)
	switch fatal, isFatal := fatalOf(err); {
	case report != nil && refusal(report) != "":
		return said.refused(refusal(report))
	case report != nil:
		return r.explained(err)
	case isFatal:
		return said.refused(fatal)
	case err == nil && !request.Capabilities.Supports(capability.ReportStatus):
		return nil
	case err == nil:
		err = io.ErrUnexpectedEOF
	case answers(err), ctx.Err() != nil:
		return r.explained(err)
	}
	return r.unanswered(ctx, name, was, is, err)
}

// answers reports whether a server answered a request as a whole, with an error.
func answers(err error) bool {
	var status *githttp.Err
	for _, of := range []error{transport.ErrAuthenticationRequired, transport.ErrAuthorizationFailed, transport.ErrRepositoryNotFound} {
		if errors.Is(err, of) {
			return true
		}
	}
	return errors.As(err, &status) || strings.Contains(err.Error(), "http redirect: ") // as package http has it
}

// fatalOf returns the error with which a server ended its answer.
func fatalOf(err error) (text string, ok bool) {
	if err == nil {
		return "", false
	}
	return strings.CutPrefix(err.Error(), "unexpected error: ") // as package sideband has it
}

// unanswered returns what became of a push whose answer was lost, as the branch now shows it.
func (r *Repository) unanswered(ctx context.Context, name plumbing.ReferenceName, was, is plumbing.Hash, lost error) error {
	if lost = r.explained(lost); errors.Is(lost, errNoGit) {
		lost = io.ErrUnexpectedEOF // the answer ends within a line
	}
	branches, err := r.Branches(ctx)
	if err != nil {
		return fmt.Errorf("the connection was lost before the server answered (%w), so it is unknown whether branch %s has changed; the next try looks again: %w", lost, name.Short(), err)
	}
	switch branches.Head(name.Short()) {
	case hashOf(is):
		return nil
	case hashOf(was):
		return fmt.Errorf("the connection was lost before the server answered (%w), and branch %s is as it was", lost, name.Short())
	default:
		return ErrMoved
	}
}

// refusal is why a server did not change a branch, "" if it did.
func refusal(report *packp.ReportStatus) string {
	for _, c := range report.CommandStatuses {
		if c.Error() != nil {
			return c.Status
		}
	}
	if report.Error() != nil {
		return "unpacking failed: " + report.UnpackStatus
	}
	return ""
}

// words keeps the beginning of what a server says during a push, which git shows as "remote: …".
type words struct{ said []byte }

const mostWords = 4 << 10 // bytes that are kept

func (w *words) Write(p []byte) (int, error) {
	w.said = append(w.said, p[:min(len(p), mostWords-len(w.said))]...)
	return len(p), nil
}

// text is what the server says on one line, "" for nothing.
func (w *words) text() string { return spoken(string(w.said)) }

// spoken is what a server says, on one line and bounded. It has the lines that say something, and
// of one that the server writes again and again the last state.
func spoken(said string) string {
	const most = 600 // characters
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(said, "")) {
		line = strings.TrimRight(line, "\r\n \t")
		line = phrase.Plain(line[strings.LastIndexByte(line, '\r')+1:])
		line = strings.Join(strings.Fields(line), " ")
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) && line != "error:" {
			lines = append(lines, line)
		}
	}
	return phrase.Cut(strings.Join(lines, " / "), most)
}

// refused puts into words that a server did not change a branch, and what it says about that.
func (w *words) refused(why string) error {
	for _, moved := range []string{"failed to update ref", "fetch first", "stale info", "cannot lock ref", "failed to lock"} {
		if strings.Contains(why, moved) {
			return ErrMoved
		}
	}
	if text := w.text(); text != "" {
		return fmt.Errorf("the server refused the push (%s): %s", spoken(why), text)
	}
	return fmt.Errorf("the server refused the push: %s", spoken(why))
}

// commit makes the objects of a commit: the files, the directories above them, and the commit.
func (c *Change) commit() (objects []plumbing.Hash, commit plumbing.Hash, err error) {
	m := maker{store: c.On.store}
	tree, err := m.tree(c.On.tree, c.Contents)
	if err != nil {
		return nil, commit, err
	}
	made := &object.Commit{
		Author: c.Author.at(c.When), Committer: c.Committer.at(c.When), Message: c.Message, TreeHash: tree, ParentHashes: []plumbing.Hash{plumbing.NewHash(string(c.On.Hash))},
	}
	if c.Sign != nil {
		if made.PGPSignature, err = c.signature(made); err != nil {
			return nil, commit, err
		}
	}
	commit, err = m.add(made.Encode)
	return m.objects, commit, err
}

func (c *Change) signature(of *object.Commit) (string, error) {
	o := &plumbing.MemoryObject{}
	if err := of.EncodeWithoutSignature(o); err != nil {
		return "", err
	}
	r, err := o.Reader()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	return c.Sign(text)
}

// maker makes objects, and keeps which ones.
type maker struct {
	store   *memory.Storage
	objects []plumbing.Hash
}

func (m *maker) add(encode func(plumbing.EncodedObject) error) (hash plumbing.Hash, err error) {
	o := m.store.NewEncodedObject()
	if err := encode(o); err != nil {
		return hash, err
	}
	hash, err = m.store.SetEncodedObject(o)
	m.objects = append(m.objects, hash)
	return hash, err
}

// tree makes a directory from another one, with other contents of some files below it.
func (m *maker) tree(of plumbing.Hash, contents map[string][]byte) (hash plumbing.Hash, err error) {
	was, err := object.GetTree(m.store, of)
	if err != nil {
		return hash, err
	}
	below := map[string]map[string][]byte{}
	for path, content := range contents {
		name, rest, _ := strings.Cut(path, "/")
		if below[name] == nil {
			below[name] = map[string][]byte{}
		}
		below[name][rest] = content
	}
	changed := object.Tree{Entries: slices.Clone(was.Entries)}
	for name, files := range below {
		entry := entryOf(&changed, name)
		if content, file := files[""]; file {
			entry.Hash, err = m.blob(content)
		} else {
			entry.Hash, err = m.tree(entry.Hash, files)
		}
		if err != nil {
			return hash, err
		}
	}
	return m.add(changed.Encode)
}

func (m *maker) blob(content []byte) (plumbing.Hash, error) {
	return m.add(func(o plumbing.EncodedObject) error {
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	})
}
