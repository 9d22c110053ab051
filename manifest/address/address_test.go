package address_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/manifest/address"
)

func TestAnAddressIsSplit(t *testing.T) {
	for _, tc := range []struct{ address, of, key, without, first, rest string }{
		{"page", "page", "", "page", "page", ""},
		{"page[a]", "page", "a", "page", "page[a]", ""},
		{"web.page", "web.page", "", "web.page", "web", ".page"},
		{"web[a].page", "web[a].page", "", "web.page", "web[a]", ".page"},
		{"web[a.b].page[c:1]", "web[a.b].page", "c:1", "web.page", "web[a.b]", ".page[c:1]"},
		{"", "", "", "", "", ""},
		{"[", "[", "", "[", "", "["},
		{"page]", "page]", "", "page]", "page", "]"},
	} {
		of, key, one := address.Split(tc.address)
		assert.True(t, of == tc.of && key == tc.key && one == (of != tc.address) &&
			address.Declared(tc.address) == of, "%q is split into %q, %q, %v", tc.address, of, key, one)
		assert.True(t, !one || address.Instance(of, key) == tc.address, "%q is not put together again", tc.address)
		assert.Equal(t, tc.without, address.WithoutKeys(tc.address), tc.address)
		first, rest := address.First(tc.address)
		assert.True(t, first == tc.first && rest == tc.rest, "%q begins with %q, before %q", tc.address, first, rest)
	}
}

func TestAnAddressIsValid(t *testing.T) {
	for text, want := range map[string]bool{
		"page": true, "page[a]": true, "web[a].page[b.c]": true, "page[]": false, "page[a": false, "page[a]b": false, "1": false,
		"page[" + strings.Repeat("a", 100) + "].x": true, "page[" + strings.Repeat("a", 101) + "].x": false,
		"page[.a]": false, "page[a/b]": false, "page.": false, "page\n": false, "": false,
	} {
		assert.Equal(t, want, address.Valid(text), text)
	}
}

func TestAKeyIsOnlySoLong(t *testing.T) {
	long := strings.Repeat("a", 100)
	assert.True(t, address.ValidKey(long) && !address.ValidKey(long+"a"), "the bound of a key is not 100 characters")
}

func TestAKeyIsMadeOfATextOrAWholeNumber(t *testing.T) {
	for _, tc := range []struct {
		value any
		key   string
		ok    bool
	}{{"a", "a", true}, {int64(-3), "-3", true}, {1.5, "", false}, {nil, "", false}, {true, "", false}} {
		key, ok := address.Key(tc.value)
		assert.True(t, key == tc.key && ok == tc.ok, "of %v: %q, %v", tc.value, key, ok)
	}
}
