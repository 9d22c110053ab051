package work

import (
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/expression"
)

// wantOmitted collects what includes of a manifest name, and checks what is carried and
// what is left out.
func (c checkout) wantOmitted(content string, carried []string, omitted map[string]string) Carried {
	c.Helper()
	c.wantCarried(content, carried...)
	files, err := c.collect(content)
	if err != nil {
		c.Fatal(err)
	}
	all, err := (&Collection{Files: files}).Omitted()
	if err != nil || len(all) != len(omitted) {
		c.Errorf("with %s is left out %v (%v), want %v", content, all, err, omitted)
	}
	for _, o := range all {
		if says := omitted[o.Name]; says == "" || !strings.Contains(o.Why, says) {
			c.Errorf("with %s is left out %v, want %v", content, o, omitted)
		}
	}
	return files
}

func TestStrayEntriesOfADirectoryAreLeftOutAndRefusedOnlyWhereTheyAreIncluded(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"conf/default": "D", "conf/h1": "1", "conf/h1~": `{% include host %}`, "conf/.h1.swp": strings.Repeat("\x00", 1<<20+1),
		"conf/loop/a/file": "", "conf/h2": `{% include ["lib/pipe", "conf/default"] %}`,
	})
	outside := newCheckout(t, map[string]string{"h7": "secret"})
	c.fifo("conf/pipe")
	c.fifo("lib/pipe")
	socket, err := net.Listen("unix", filepath.Join(c.dir, "conf", "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	c.link("conf/h7", filepath.Join(outside.dir, "h7"))
	c.link("conf/prod", outside.dir)
	c.link("conf/.#h1", "nobody@nowhere.1")
	c.link("conf/loop/a/b", "../../loop")
	files := c.wantOmitted(`{% include ["conf/" ~ host, "conf/default"] %}`,
		[]string{"conf/default", "conf/h1", "conf/h2", "conf/loop/a/file"},
		map[string]string{
			"conf/h1~": "known only when it is evaluated", "conf/.h1.swp": "larger than 1 MiB", "conf/pipe": "not a file", "conf/socket": "not a file",
			"conf/h7": "outside of the workspace", "conf/prod": "outside of the workspace", "conf/.#h1": "a link to what is not there",
			"conf/loop/a/b": "a link to conf/loop, in which it is itself", "lib/pipe": "not a file",
		})
	texts := c.config().Texts
	if err := texts.KeepAll(files); err != nil {
		t.Fatal(err)
	}
	for _, read := range []expression.Files{files.Files(), texts.Files(files.Digests())} {
		content := func(host string) (any, error) {
			return expression.Over(read).Evaluate(`{% include ["conf/" ~ host, "conf/default"] %}`, map[string]any{"host": host})
		}
		for host, want := range map[string]string{"h1": "1", "h9": "D", "loop/a/file": ""} {
			if got, err := content(host); err != nil || got != want {
				t.Errorf("on %s it is %q, %v", host, got, err)
			}
		}
		for host, says := range map[string]string{
			"h7": "the revision was made without it: it is outside of the workspace; correct or remove it, and make a new revision",
			"h2": `cannot include "lib/pipe": the revision was made without it`, "prod/h7": "the revision was made without conf/prod: ",
			"loop/a/b/a/file": "in which it is itself", ".#h1": "not there",
		} {
			if got, err := content(host); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), says) {
				t.Errorf("on %s it is %q, %v, want an error that says %q", host, got, err, says)
			}
		}
	}
	if all, err := texts.Omitted(files.Digests()); err != nil || len(all) != 9 || !slices.IsSortedFunc(all, func(a, b revision.Omitted) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("the revision says %v, %v", all, err)
	}
}

func TestWhatWasLeftOutStaysSoInRevisionsMadeOfThese(t *testing.T) {
	c := newCheckout(t, map[string]string{"conf/h1": "1"})
	c.fifo("conf/pipe")
	kept := c.wantOmitted(`{% include "conf/" ~ host %}`, []string{"conf/h1"}, map[string]string{"conf/pipe": "not a file"})
	again, err := Collect(c.dir, kept, nil)
	if err != nil || string(again.Files[revision.OmittedName]) != string(kept[revision.OmittedName]) || len(kept[revision.OmittedName]) == 0 {
		t.Errorf("made of the same files it leaves out %s, %v", again.Files[revision.OmittedName], err)
	}
	kept[revision.OmittedName] = []byte(`{"version":2}`)
	if _, err := Collect(c.dir, kept, nil); err == nil || !strings.Contains(err.Error(), "use a newer one") {
		t.Errorf("of a newer version is said %v", err)
	}
}
