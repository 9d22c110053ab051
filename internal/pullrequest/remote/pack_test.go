package remote

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// Whatever a server sends as a pack, it is read or refused.
func FuzzUnpack(f *testing.F) {
	from := memory.NewStorage()
	var all []plumbing.Hash
	for _, text := range []string{"a file", "a file that is longer, so that the other one is a part of it: a file"} {
		o := from.NewEncodedObject()
		o.SetType(plumbing.BlobObject)
		w := must.Get(o.Writer())(f)
		_, _ = w.Write([]byte(text))
		h := must.Get(from.SetEncodedObject(o))(f)
		all = append(all, h)
	}
	for _, window := range []uint{0, 10} {
		var pack bytes.Buffer
		must.Get(packfile.NewEncoder(&pack, from, true).Encode(all, window))(f)
		f.Add(pack.Bytes())
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		most, err := measure(sent)
		if err != nil {
			return
		}
		to := memory.NewStorage()
		if err := unpack(to, sent); err != nil {
			return
		}
		total := int64(0)
		for _, o := range to.Objects {
			total += o.Size()
		}
		assert.LessOrEqual(t, total, most, "%d bytes became", len(sent))
	})
}

// packed is an object as a pack has it: a type, what is between that and the contents, how many
// bytes it says these have, and the contents, compressed.
type packed struct {
	kind     plumbing.ObjectType
	between  []byte
	declared int
	contents []byte
}

func deflated(contents []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(contents)
	_ = z.Close()
	return b.Bytes()
}

func pack(objects ...packed) []byte {
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, []uint32{2, uint32(len(objects))})
	for _, o := range objects {
		first, rest := byte(int(o.kind)<<4|o.declared&15), o.declared>>4
		for ; rest > 0; rest >>= 7 {
			b.WriteByte(first | 0x80)
			first = byte(rest & 0x7f)
		}
		b.WriteByte(first)
		b.Write(o.between)
		b.Write(o.contents)
	}
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// copies is a delta that says that it makes so many bytes of a base, and copies that so many
// times.
func copies(base, says, times int) []byte {
	d := binary.AppendUvarint(nil, uint64(base))
	d = binary.AppendUvarint(d, uint64(says))
	for range times {
		d = append(d, 0x80|0x10|0x20|0x40, byte(base), byte(base>>8), byte(base>>16))
	}
	return d
}

// A small pack may make much of little, in several ways: that takes little memory, and is said.
func TestAPackThatMakesMuchOfLittleIsRefused(t *testing.T) {
	const large = 1 << 20
	const huge = 80 << 20
	zeros := make([]byte, huge)
	base := packed{plumbing.BlobObject, nil, large, deflated(zeros[:large])}
	o := plumbing.ComputeHash(plumbing.BlobObject, zeros[:large])
	delta := func(d []byte) packed { return packed{plumbing.REFDeltaObject, o[:], len(d), deflated(d)} }
	bomb := deflated(zeros)
	many := func(n int, of packed) []packed { return slices.Repeat([]packed{of}, n) }
	for name, c := range map[string]struct {
		pack []byte
		why  string
	}{
		"deltas that make 2 GiB":           {pack(append(many(1, base), many(100, delta(copies(large, 20*large, 20)))...)...), "too large"},
		"one that makes 1 TiB":             {pack(base, delta(copies(large, 1<<40, 1))), "too large"},
		"one that makes more than it says": {pack(base, delta(copies(large, 10, 5000))), "delta"},
		"one whose base is not what it is": {pack(base, delta(copies(100*large, 20*large, 20))), "delta"},
		"more than is declared":            {pack(packed{plumbing.BlobObject, nil, 10, bomb}), "reading what the server sent"},
		"a large file":                     {pack(packed{plumbing.BlobObject, nil, huge, bomb}), "too large"},
		"many empty ones":                  {pack(many(300_000, packed{plumbing.BlobObject, nil, 0, deflated(nil)})...), "too large"},
	} {
		require.LessOrEqual(t, len(c.pack), 32<<20, "%s: bytes that are sent", name)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := measure(c.pack)
		if err == nil {
			err = unpack(memory.NewStorage(), c.pack)
		}
		runtime.ReadMemStats(&after)
		assert.ErrorContains(t, err, c.why, name)
		assert.LessOrEqual(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(16), "%s: MiB that are used", name)
	}
}
