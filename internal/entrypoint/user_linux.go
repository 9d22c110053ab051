package entrypoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/user"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// configure completes the configuration by what only the image's files tell and
// writes it for the runtime.
func (l *launcher) configure() error {
	found, err := l.findUser()
	if err != nil {
		return failed(fmt.Sprintf("find user %q", l.request.User), err)
	}
	config := &l.request.Config
	config.Root = &specs.Root{Path: rootDir, Readonly: true}
	config.Process.User = specs.User{UID: uint32(found.Uid), GID: uint32(found.Gid)}
	if !l.request.Rootless {
		for _, group := range found.Sgids {
			config.Process.User.AdditionalGids = append(config.Process.User.AdditionalGids, uint32(group))
		}
	}
	if has := config.Process.Capabilities; found.Uid != 0 && has != nil {
		has.Effective, has.Permitted = nil, nil // as executing a program leaves them
	}
	if !slices.ContainsFunc(config.Process.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }) {
		config.Process.Env = append(config.Process.Env, "HOME="+found.Home)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return failed("encode the runtime's configuration", err)
	}
	if err := os.WriteFile(configFile, encoded, 0o600); err != nil {
		return failed("write the runtime's configuration", err)
	}
	return nil
}

// findUser looks the user up in the image's own files.
func (l *launcher) findUser() (*user.ExecUser, error) {
	root, err := os.Open(rootDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	found, err := lookUp(root, l.request.User)
	if err != nil {
		return nil, err
	}
	if l.request.Rootless && (found.Uid != 0 || found.Gid != 0) {
		return nil, errors.New("without root there is only user 0 with group 0, who is you")
	}
	return found, nil
}

// lookUp finds a user in the files of an image.
func lookUp(root *os.File, name string) (*user.ExecUser, error) {
	passwd, err := readWithin(root, "etc/passwd")
	if err != nil {
		return nil, err
	}
	group, err := readWithin(root, "etc/group")
	if err != nil {
		return nil, err
	}
	return user.GetExecUser(name, &user.ExecUser{Home: "/"}, bytes.NewReader(passwd), bytes.NewReader(group))
}

// largest bounds the files that say which users an image has.
const largest = 8 << 20

// readWithin reads a regular file of an image. Links lead nowhere but into the
// image. A file that is not there is empty.
func readWithin(root *os.File, name string) ([]byte, error) {
	fd, err := unix.Openat2(int(root.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open /%s of the image: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil {
		return nil, fmt.Errorf("look at /%s of the image: %w", name, err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("/%s of the image is no regular file", name)
	}
	content, err := io.ReadAll(io.LimitReader(file, largest+1))
	if err != nil {
		return nil, fmt.Errorf("read /%s of the image: %w", name, err)
	}
	if len(content) > largest {
		return nil, fmt.Errorf("/%s of the image is larger than %d bytes", name, largest)
	}
	return content, nil
}
