package artifacts

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// state is what the kernel knows of a file, and changes whenever anything of the file does.
type state struct {
	device, inode uint64
	change        time.Duration // when anything of it changed last, since 1970
}

func stateOf(info fs.FileInfo) state {
	stat, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return state{}
	}
	return state{uint64(stat.Dev), stat.Ino, time.Duration(stat.Ctim.Nano())} //nolint:unconvert // narrower on some platforms
}

// startOfMachine is different after the machine was started again; "" where that is not known.
func startOfMachine() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
