package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// file is a write-ahead log of so many transactions, each of one page.
func file(transactions int) []byte {
	const page = 512
	var sum checksum
	b := binary.BigEndian.AppendUint32(nil, magic|1)
	for _, n := range []uint32{3007000, page, 0, 17, 4} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	sealed := func(b []byte) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, sum[0]), sum[1])
	}
	sum.add(binary.BigEndian, b)
	b = sealed(b)
	for n := range transactions {
		at := len(b)
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, 1) // pages of the file after the commit
		sum.add(binary.BigEndian, b[at:])
		content := bytes.Repeat([]byte{byte(n)}, page)
		sum.add(binary.BigEndian, content)
		b = sealed(append(b, b[16:24]...))
		b = append(b, content...)
	}
	return b
}

func TestATransactionThatOthersFollowIsWhole(t *testing.T) {
	const frame = FrameHeaderSize + 512
	for name, c := range map[string]struct {
		flipped int // counted from the end; 0 is none
		frame   int // that is said to be broken; 0 is none
	}{
		"as it was":           {0, 0},
		"the last is torn":    {10, 0},
		"the one before":      {frame + 10, 3},
		"the first":           {3*frame + 10, 1},
		"the salt of a frame": {2*frame - 8, 3},
	} {
		path := filepath.Join(t.TempDir(), "log.db")
		if pending, err := Check(path); pending || err != nil {
			t.Errorf("%s: without one: %v, %v", name, pending, err)
		}
		b := file(4)
		if c.flipped > 0 {
			b[len(b)-c.flipped] ^= 4
		}
		require.NoError(t, os.WriteFile(path+suffix, b, 0o600))
		pending, err := Check(path)
		damaged := new(DamageError)
		if errors.As(err, &damaged); !pending || damaged.Frame != c.frame || (err != nil) != (c.frame > 0) {
			t.Errorf("%s: %v, %v; want frame %d", name, pending, err, c.frame)
		}
		assert.NoError(t, Sync(path), "%s", name)
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x37, 0x7f, 0x06, 0x82})
	f.Add(bytes.Repeat([]byte{0x37, 0x7f, 0x06, 0x83}, 2000))
	f.Fuzz(func(t *testing.T, b []byte) { assert.NoError(t, errOf(scan(bytes.NewReader(b)))) })
}

func errOf[T any](_ T, err error) error { return err }
