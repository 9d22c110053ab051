package shipped

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// recently is how long ago a file may have changed that may change again within the same
// tick of the clock.
const recently = 2 * time.Second

// hashed is the binary at path with its hash. Hashing takes long enough to be
// felt at every start, so hashes are remembered by the file's identity: device,
// inode, size, and the times of the last change of content and of attributes,
// the second of which no program can set. A file that changed a moment ago may
// change again within the same tick of the clock, so its hash is not remembered.
func (s Source) hashed(path, arch string) (Binary, error) {
	file, err := os.Open(path)
	if err != nil {
		return Binary{}, err
	}
	defer func() { _ = file.Close() }()
	before, changed, err := identity(file)
	if err != nil {
		return Binary{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	remembered := s.remembered(path, before)
	if sum := readHash(remembered); sum != "" {
		return Binary{Path: path, Arch: arch, SHA256: sum}, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return Binary{}, fmt.Errorf("reading %s: %w", path, err)
	}
	after, _, err := identity(file)
	if err != nil {
		return Binary{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	if before != after {
		return Binary{}, fmt.Errorf("%s changed while it was read; try again", path)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	if remembered != "" && time.Since(changed) >= recently {
		remember(remembered, sum)
	}
	return Binary{Path: path, Arch: arch, SHA256: sum}, nil
}

// remembered is the file that holds the hash of a file with that identity, ""
// when nothing is remembered.
func (s Source) remembered(path, identity string) string {
	if s.CacheDir == "" || identity == "" {
		return ""
	}
	key := sha256.Sum256([]byte(path + "\x00" + identity))
	return filepath.Join(s.CacheDir, "hash-"+hex.EncodeToString(key[:16]))
}

func readHash(path string) string {
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 2*sha256.Size {
		return ""
	}
	if _, err := hex.DecodeString(string(text)); err != nil {
		return ""
	}
	return string(text)
}

// remember does its best: without it the next start is a little slower.
func remember(path, sum string) {
	if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = atomicfile.WriteFile(path, []byte(sum))
	}
}
