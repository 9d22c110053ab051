package work

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/pipeline/definition"
)

// An inventory that cannot be read for a while takes no host away.
func TestHostsStayWhileTheInventoryCanNotBeRead(t *testing.T) {
	h := NewHosts(filepath.Join(t.TempDir(), "inventory.yaml"))
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(h.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{{
		Name: "all", Deploy: &definition.Deploy{HostGroups: []definition.HostGroup{{Name: "all", Hosts: "name =~ ."}}},
	}}}
	members := func() []string {
		t.Helper()
		m, err := h.Members(d)
		if err != nil {
			t.Fatal(err)
		}
		return m["all"]
	}

	if _, err := h.Members(d); err == nil {
		t.Error("there is no inventory, and no error")
	}
	write("hosts: [{name: a, engine: oci, slots: 3}]")
	if got := members(); len(got) != 1 || h.Slots("a") != 3 {
		t.Errorf("members %v, %d slots", got, h.Slots("a"))
	}
	write("hosts: [")
	if _, err := h.Members(d); err == nil {
		t.Error("the inventory is broken, and no error")
	}
	if known, ok := h.host("a"); !ok || known.Slots != 3 || h.Slots("a") != 3 {
		t.Errorf("the host is %+v, %v", known, ok)
	}
	write("hosts: [{name: b, engine: oci}, {name: c, engine: oci}]")
	if got := members(); len(got) != 2 || h.Slots("b") != 1 {
		t.Errorf("members %v", got)
	}
	if _, ok := h.host("a"); ok {
		t.Error("the host that left is still there")
	}
}

func TestAHostIsGoneOnlyWhenAnInventorySaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	h := NewHosts(path)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.Version() // looks at the file
	}
	if h.Version(); !h.Known("one") {
		t.Error("a host is gone because the file is not there")
	}
	write("{{{")
	if !h.Known("one") {
		t.Error("a host is gone because the file cannot be read")
	}
	write("hosts: [{name: one, engine: oci}]")
	if !h.Known("one") || h.Known("two") {
		t.Errorf("of one and two, known are %t and %t", h.Known("one"), h.Known("two"))
	}
	write("hosts: [{name: o")
	if !h.Known("one") || h.Known("two") {
		t.Errorf("since the file is broken, known of one and two are %t and %t", h.Known("one"), h.Known("two"))
	}
}

// Whoever asks for a host first, before anybody selects hosts, finds its attributes.
func TestAHostIsFoundByWhoAsksFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	if err := os.WriteFile(path, []byte(`hosts: [{name: a, endpoint: "unix:///run/a", attributes: {socket: /run/a}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := NewHosts(path).Attribute("a", "socket"); got != "/run/a" {
		t.Errorf("its attribute is %q", got)
	}
}
