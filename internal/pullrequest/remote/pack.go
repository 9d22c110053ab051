package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
)

// The bounds of what is read of a repository, as it is sent and as it is then.
const (
	mostSent     = 64 << 20
	mostUnpacked = 64 << 20
	mostObjects  = 250_000 // each takes memory, however small it is
	perObject    = 500     // about so many bytes
	smallFiles   = 64      // KiB: larger ones are left out at first if the server sends no files by hash
	little       = 4 << 20 // what takes less does not count
)

// way is how much a server is to send.
type way struct {
	filter packp.Filter // "" is everything
	byHash bool         // files are asked for by their hashes after that
	single bool         // objects that are no commits
	last   bool         // a file that is left out is too large to be read
}

// ways are those that the server says it knows, the one that sends least first. A server may
// refuse what it says it knows, so the last one sends everything.
func (b *Branches) ways() (all []way) {
	can := b.all.Capabilities
	if can.Supports(capability.Filter) {
		if can.Supports(capability.AllowReachableSHA1InWant) || can.Supports(capability.AllowTipSHA1InWant) {
			all = append(all, way{filter: packp.FilterBlobNone(), byHash: true})
		}
		all = append(all, way{filter: packp.FilterBlobLimit(smallFiles, packp.BlobLimitPrefixKibi)},
			way{filter: packp.FilterBlobLimit(maxFile+1, packp.BlobLimitPrefixNone), last: true})
	}
	return append(all, way{})
}

// refusedError is that a server does not send what it was asked for, which it may do in another
// way.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// fetch reads objects, and of commits what they have but not those before them.
func (b *Branches) fetch(ctx context.Context, to *memory.Storage, w way, wants []plumbing.Hash) error {
	request := packp.NewUploadPackRequest()
	request.Wants = wants
	can := b.all.Capabilities
	if can.Supports(capability.OFSDelta) {
		_ = request.Capabilities.Set(capability.OFSDelta)
	}
	if can.Supports(capability.Shallow) && !w.single {
		_ = request.Capabilities.Set(capability.Shallow)
		request.Depth = packp.DepthCommits(1)
	}
	if w.filter != "" {
		_ = request.Capabilities.Set(capability.Filter)
		request.Filter = w.filter
	}
	response, err := b.session.UploadPack(ctx, request)
	if err != nil {
		return b.repository.unsent(err)
	}
	defer response.Close() //nolint:errcheck // what was read is checked
	sent, err := b.repository.read(ctx, response)
	if err != nil {
		return err
	}
	if len(sent) == 0 {
		return &refusedError{errors.New("the server sends nothing of the commit")}
	}
	unpacked, err := measure(sent)
	if err == nil && unpacked > little {
		err = b.repository.Large(ctx)
	}
	if err != nil {
		return err
	}
	b.repository.Unpacking.Lock()
	defer b.repository.Unpacking.Unlock()
	return unpack(to, sent)
}

// unsent puts into words why a server sends nothing.
func (r *Repository) unsent(err error) error {
	explained := r.explained(err)
	var limited *limit.Error
	var of *url.Error
	if errors.As(explained, &limited) || errors.As(err, &of) {
		return explained
	}
	return &refusedError{explained}
}

// read reads a pack.
func (r *Repository) read(ctx context.Context, from io.Reader) (sent []byte, err error) {
	for _, most := range []int64{little, mostSent} {
		if most > little {
			if err := r.Large(ctx); err != nil {
				return nil, err
			}
		}
		some, err := io.ReadAll(io.LimitReader(from, most+1-int64(len(sent))))
		if err != nil {
			return nil, fmt.Errorf("reading what the server sends: %w", r.explained(err))
		}
		if sent = append(sent, some...); int64(len(sent)) <= most {
			return sent, nil
		}
	}
	return nil, errTooLarge
}

var errTooLarge = fmt.Errorf("its newest commit is too large: more than %d MiB are sent, or %d MiB unpacked, or %d files and directories; a repository with less in it would do", mostSent>>20, mostUnpacked>>20, mostObjects)

// measure is how many bytes what a server sent takes unpacked, which may be anything. It keeps
// nothing of it.
func measure(sent []byte) (unpacked int64, err error) {
	return unpacked, reading(func() (err error) {
		unpacked, err = sizeOf(sent)
		return err
	})
}

// unpack adds what was measured to a store.
func unpack(to *memory.Storage, sent []byte) error {
	return reading(func() error { return packfile.UpdateObjectStorage(to, bytes.NewReader(sent)) })
}

func reading(do func() error) error {
	err := crash.Do("reading a pack of git", do)
	if err != nil && !errors.Is(err, errTooLarge) {
		err = fmt.Errorf("reading what the server sent: %w", err)
	}
	return err
}

// sizeOf fails where a pack would be too large unpacked. What an object that is made from another
// one takes is what it says: whoever unpacks it makes no more of it.
func sizeOf(sent []byte) (int64, error) {
	s := packfile.NewScanner(bytes.NewReader(sent))
	_, count, err := s.Header()
	if err != nil {
		return 0, err
	}
	if count > mostObjects {
		return 0, errTooLarge
	}
	left := int64(mostUnpacked)
	for range count {
		header, err := s.NextObjectHeader()
		if err != nil {
			return 0, err
		}
		size := header.Length
		if size < 0 || size > left {
			return 0, errTooLarge
		}
		var start beginning
		if _, _, err := s.NextObject(&start); err != nil {
			return 0, err
		}
		if header.Type.IsDelta() {
			size += start.target()
		}
		if left -= size; left < 0 || size < 0 {
			return 0, errTooLarge
		}
	}
	return mostUnpacked - left + int64(count)*perObject, nil
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
