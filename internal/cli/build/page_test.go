package build_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Programs read the jobs of a large group page by page.
func TestJobsAreListedPageByPage(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	for command, want := range map[string]string{
		"jobs base":                                   "glibc make gcc curl",
		"jobs base --first 3":                         "glibc make gcc 1 more: --after 3",
		"jobs base --after 3 --first 3":               "curl",
		"jobs base --after 1 --first 1":               "make 2 more: --after 2",
		"jobs base --after 1 --first 1 --all":         "make 2 more: --after 2",
		"jobs base --after 9":                         "no job is like that",
		"jobs base --first 3 --output json":           `glibc make gcc "more":1`,
		"jobs base --after 2 --first 1 --output json": `make gcc "more":1`,
		"jobs base --after 9 --output json":           `"jobs":[]`,
		"jobs base --after -1":                        "--after -1: it must not be negative",
		"jobs base --first -1":                        "--first -1: it must not be negative",
	} {
		out, beside, _ := s.run(strings.Fields(command)...)
		rest := out + beside
		for _, name := range []string{"glibc", "make", "gcc", "curl"} {
			if has := strings.Contains(out, name); has != strings.Contains(want, name) {
				t.Errorf("%s: %s is there: %t\n%s", command, name, has, out)
			}
			want = strings.TrimSpace(strings.Replace(want, name, "", 1))
		}
		assert.Contains(t, rest, want, "%s does not say %q:\n%s", command, want, rest)
		if strings.Contains(rest, "more: --after") != strings.Contains(want, "more: --after") {
			t.Errorf("%s says of more what it should not:\n%s", command, rest)
		}
	}
}
