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

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Change is a commit to be made on a branch.
type Change struct {
	Branch  string
	Was     Hash  // the newest commit of the branch; "" where it is not there
	On      *File // as the commit has it on which this is made
	Content []byte
	Message string
	Author  string
	Email   string
	When    time.Time
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
	report, err := session.ReceivePack(ctx, request)
	if report != nil {
		if refused := report.Error(); refused != nil {
			return refusal(refused)
		}
	}
	return r.explained(err)
}

// refusal puts into words why a server did not change a branch.
func refusal(err error) error {
	text := err.Error()
	for _, moved := range []string{"failed to update ref", "fetch first", "stale info", "cannot lock ref", "failed to lock"} {
		if strings.Contains(text, moved) {
			return ErrMoved
		}
	}
	return fmt.Errorf("the server refused the push: %s", text)
}

// commit makes the objects of a commit: the file, the directories above it, and the commit.
func (c *Change) commit() (objects []plumbing.Hash, commit plumbing.Hash, err error) {
	store := c.On.store
	add := func(encode func(plumbing.EncodedObject) error) (hash plumbing.Hash) {
		o := store.NewEncodedObject()
		if err == nil {
			err = encode(o)
		}
		if err == nil {
			hash, err = store.SetEncodedObject(o)
		}
		objects = append(objects, hash)
		return hash
	}
	hash := add(func(o plumbing.EncodedObject) error {
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err == nil {
			_, err = w.Write(c.Content)
		}
		return err
	})
	parts := strings.Split(c.On.Path, "/")
	for i, tree := range slices.Backward(c.On.trees) {
		changed := object.Tree{Entries: slices.Clone(tree.Entries)}
		entryOf(&changed, parts[i]).Hash = hash
		hash = add(changed.Encode)
	}
	who := object.Signature{Name: c.Author, Email: c.Email, When: c.When}
	commit = add((&object.Commit{
		Author: who, Committer: who, Message: c.Message, TreeHash: hash, ParentHashes: []plumbing.Hash{plumbing.NewHash(string(c.On.Commit))},
	}).Encode)
	return objects, commit, err
}
