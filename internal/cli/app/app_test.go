package app

import (
	"strings"
	"testing"
)

func TestFilesAreLeftForTheWork(t *testing.T) {
	for _, c := range []struct{ files, parallelism, serving, want int }{
		{1024, 10, 0, 760},
		{1024, 10, 20, 640},
		{1 << 20, 10, 0, 1<<20 - 264},
		{82, 10, 1, 41},
		{1, 1, 0, 1},
	} {
		if got := maxEntities(c.files, c.parallelism, c.serving); got != c.want {
			t.Errorf("with %d files, %d at once: %d, want %d", c.files, c.parallelism, got, c.want)
		}
	}
}

func TestAsManyProcessesServeAsThereIsRoomFor(t *testing.T) {
	const free = "MemTotal:       24683520 kB\nMemFree:        20000000 kB\nMemAvailable:   %s kB\nBuffers: 1 kB\n"
	for _, c := range []struct {
		files   int
		meminfo string
		want    int
	}{
		{1 << 20, strings.ReplaceAll(free, "%s", "9830400"), 100},
		{1 << 20, strings.ReplaceAll(free, "%s", "98304000"), 512},
		{1024, strings.ReplaceAll(free, "%s", "9830400"), 21},
		{82, strings.ReplaceAll(free, "%s", "9830400"), 1},
		{1 << 20, strings.ReplaceAll(free, "%s", "1000"), 0},
		{1 << 20, "MemTotal: 5 kB\n", 0},
		{1 << 20, "", 0},
	} {
		if got := maxServing(c.files, c.meminfo); got != c.want {
			t.Errorf("with %d files and\n%s%d, want %d", c.files, c.meminfo, got, c.want)
		}
	}
}
