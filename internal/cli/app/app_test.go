package app

import "testing"

func TestFilesAreLeftForTheWork(t *testing.T) {
	for _, c := range []struct{ files, parallelism, want int }{
		{1024, 10, 760},
		{1 << 20, 10, 1<<20 - 264},
		{82, 10, 41},
		{1, 1, 1},
	} {
		if got := maxEntities(c.files, c.parallelism); got != c.want {
			t.Errorf("with %d files, %d at once: %d, want %d", c.files, c.parallelism, got, c.want)
		}
	}
}
