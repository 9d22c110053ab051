package deploylog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

func TestHeadsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]deploylog.Head{
		"23:1ec7f97eefc21d2d2e6b68327b7b6d5f": {Seq: 23, Hash: "1ec7f97eefc21d2d2e6b68327b7b6d5f"},
		"1EC7F97EEFC21D2D2E6B68327B7B6D5F":    {Hash: "1ec7f97eefc21d2d2e6b68327b7b6d5f"},
	} {
		got := must.Get(deploylog.ParseHead(text))(t)
		assert.True(t, got == want, "%s: %+v; want %+v", text, got, want)
	}
	for _, text := range []string{"", "23", "23:", ":1ec7", "-1:1ec7", "1ec7:23", "23:1ec7", "23:1ec7f97eefc21d2d2e6b68327b7b6d5f ", "23:xyz", "1:2:3"} {
		got, err := deploylog.ParseHead(text)
		assert.True(t, err != nil, "%q is taken for the head %+v", text, got)
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add("23:1ec7f97eefc21d2d2e6b68327b7b6d5f")
	f.Add("1ec7")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := deploylog.ParseHead(text)
		if err != nil {
			return
		}
		again, err := deploylog.ParseHead(h.String())
		assert.True(t, err == nil && again == h, "%q is %+v, and that is %+v, %v", text, h, again, err)
	})
}
