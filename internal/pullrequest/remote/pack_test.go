package remote

import (
	"bytes"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Whatever a server sends as a pack, it is read or refused.
func FuzzUnpack(f *testing.F) {
	from := memory.NewStorage()
	var all []plumbing.Hash
	for _, text := range []string{"a file", "a file that is longer, so that the other one is a part of it: a file"} {
		o := from.NewEncodedObject()
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err != nil {
			f.Fatal(err)
		}
		_, _ = w.Write([]byte(text))
		h, err := from.SetEncodedObject(o)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, h)
	}
	for _, window := range []uint{0, 10} {
		var pack bytes.Buffer
		if _, err := packfile.NewEncoder(&pack, from, true).Encode(all, window); err != nil {
			f.Fatal(err)
		}
		f.Add(pack.Bytes())
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		to, err := unpack(sent)
		if err != nil {
			return
		}
		total := int64(0)
		for _, o := range to.Objects {
			total += o.Size()
		}
		if total > mostUnpacked {
			t.Errorf("%d bytes became %d", len(sent), total)
		}
	})
}
