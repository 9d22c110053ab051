package locked

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/lockfile"
)

// Change is what an update has a lock say of a name.
type Change struct {
	Kind string `json:"kind"` // image or module
	Name string `json:"name"`
	Was  string `json:"was,omitempty"` // "": the lock said nothing of it
	Is   string `json:"is,omitempty"`  // "": it says nothing any more
}

// Update brings a lock up to date: what it says already stays, unless that is to be upgraded.
type Update struct {
	Lock    *lockfile.File
	Holder  revision.Holder
	Policy  engine.PullPolicy
	Upgrade func(name string) bool // what a name means now is to be found out anew

	changes map[string]Change
	used    map[string]bool
}

// Image locks an image, unless there is nothing to lock of it. typ is the type whose actions
// run it, or "" of a type itself.
func (u *Update) Image(ctx context.Context, ref, typ string) error {
	if Fixed(ref) {
		return nil
	}
	was, known := u.Lock.Images[ref]
	if !u.used[ref] && (!known || u.Upgrade(ref)) {
		is, err := Resolve(ctx, u.Holder, ref, u.Policy, known)
		if err != nil {
			return err
		}
		is.For = was.For
		u.note("image", ref, was.Content(), is.Content())
		was = is
	}
	if typ != "" && !slices.Contains(was.For, typ) {
		was.For = slices.Sorted(slices.Values(append(slices.Clone(was.For), typ)))
	}
	u.Lock.Images[ref] = was
	u.use(ref)
	return nil
}

func (u *Update) use(name string) {
	if u.used == nil {
		u.used = map[string]bool{}
	}
	u.used[name] = true
}

func (u *Update) note(kind, name, was, is string) {
	if was == is {
		return
	}
	if u.changes == nil {
		u.changes = map[string]Change{}
	}
	u.changes[kind+" "+name] = Change{kind, name, was, is}
}

// Prune removes from the lock what nothing used since the update began.
func (u *Update) Prune() {
	for name, i := range u.Lock.Images {
		if !u.used[name] {
			delete(u.Lock.Images, name)
			u.note("image", name, i.Content(), "")
		}
	}
	for name, m := range u.Lock.Modules {
		if !u.used[name] {
			delete(u.Lock.Modules, name)
			u.note("module", name, m.Content(), "")
		}
	}
}

// Changes are what the lock says otherwise than before, sorted by name.
func (u *Update) Changes() []Change {
	return slices.SortedFunc(maps.Values(u.changes), func(a, b Change) int {
		if by := strings.Compare(a.Kind, b.Kind); by != 0 {
			return by
		}
		return strings.Compare(a.Name, b.Name)
	})
}
