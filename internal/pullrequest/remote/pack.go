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
	mostObjects  = 250_000 // each takes memory, however small it is
	perObject    = 500     // about so many bytes
	smallFiles   = 64      // KiB: larger ones are left out where the server can do that
	little       = 4 << 20 // what takes less does not count
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
	sent, err := b.repository.read(ctx, response)
	if err != nil {
		return nil, false, err
	}
	unpacked, err := measure(sent)
	if err == nil && unpacked > little {
		err = b.repository.Large(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	b.repository.Unpacking.Lock()
	defer b.repository.Unpacking.Unlock()
	to, err = unpack(sent)
	return to, filtered, err
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

// unpack unpacks what was measured.
func unpack(sent []byte) (*memory.Storage, error) {
	to := memory.NewStorage()
	return to, reading(func() error { return packfile.UpdateObjectStorage(to, bytes.NewReader(sent)) })
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
