package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/deployster-go/deployster/internal/crash"
)

// The bounds of what is read of a repository, as it is sent and as it is then.
const (
	mostSent     = 64 << 20
	mostUnpacked = 64 << 20
	smallFiles   = 64 // KiB: larger ones are left out where the server can do that
)

// fetch reads commits without those before them. With small, files that are not small are left
// out if the server can do that; filtered says whether it did.
func (b *Branches) fetch(ctx context.Context, small bool, commits ...Hash) (to *memory.Storage, filtered bool, err error) {
	request := packp.NewUploadPackRequest()
	can := b.all.Capabilities
	for _, c := range []capability.Capability{capability.OFSDelta, capability.Shallow} {
		if can.Supports(c) {
			_ = request.Capabilities.Set(c)
		}
	}
	if can.Supports(capability.Shallow) {
		request.Depth = packp.DepthCommits(1)
	}
	if small && can.Supports(capability.Filter) {
		_ = request.Capabilities.Set(capability.Filter)
		request.Filter, filtered = packp.FilterBlobLimit(smallFiles, packp.BlobLimitPrefixKibi), true
	}
	for _, c := range commits {
		request.Wants = append(request.Wants, plumbing.NewHash(string(c)))
	}
	response, err := b.session.UploadPack(ctx, request)
	if err != nil {
		return nil, false, b.repository.explained(err)
	}
	defer response.Close() //nolint:errcheck // what was read is checked
	sent, err := io.ReadAll(io.LimitReader(response, mostSent+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading what the server sends: %w", b.repository.explained(err))
	}
	b.repository.Unpacking.Lock()
	defer b.repository.Unpacking.Unlock()
	to, err = unpack(sent)
	return to, filtered, err
}

var errTooLarge = fmt.Errorf("its newest commit is too large: more than %d MiB are sent, or %d MiB unpacked; a repository with less in it would do", mostSent>>20, mostUnpacked>>20)

// unpack reads what a server sent, which may be anything.
func unpack(sent []byte) (to *memory.Storage, err error) {
	if len(sent) > mostSent {
		return nil, errTooLarge
	}
	to = memory.NewStorage()
	err = crash.Do("reading a pack of git", func() error {
		if err := bounded(sent); err != nil {
			return err
		}
		return packfile.UpdateObjectStorage(to, bytes.NewReader(sent))
	})
	if err != nil && !errors.Is(err, errTooLarge) {
		err = fmt.Errorf("reading what the server sent: %w", err)
	}
	return to, err
}

// bounded fails where a pack would be too large unpacked. It keeps nothing of it.
func bounded(sent []byte) error {
	s := packfile.NewScanner(bytes.NewReader(sent))
	_, count, err := s.Header()
	if err != nil {
		return err
	}
	left := int64(mostUnpacked)
	for range count {
		header, err := s.NextObjectHeader()
		if err != nil {
			return err
		}
		size := header.Length
		if size < 0 || size > left {
			return errTooLarge
		}
		var start beginning
		if _, _, err := s.NextObject(&start); err != nil {
			return err
		}
		if header.Type.IsDelta() {
			size += start.target()
		}
		if left -= size; left < 0 || size < 0 {
			return errTooLarge
		}
	}
	return nil
}

// beginning keeps the first bytes that are written to it.
type beginning struct{ text []byte }

func (b *beginning) Write(p []byte) (int, error) {
	const enough = 2 * binary.MaxVarintLen64
	b.text = append(b.text, p[:min(len(p), max(0, enough-len(b.text)))]...)
	return len(p), nil
}

// target is how large what a delta makes will be: the second number of a delta.
func (b *beginning) target() int64 {
	_, n := binary.Uvarint(b.text)
	if n <= 0 {
		return mostUnpacked
	}
	size, n := binary.Uvarint(b.text[n:])
	if n <= 0 || size > mostUnpacked {
		return mostUnpacked
	}
	return int64(size)
}
