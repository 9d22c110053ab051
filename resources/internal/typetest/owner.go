package typetest

import "testing"

// BelongsToOne tests that what resource a of a workspace has made, which is in an engine, is left alone by
// another resource, and by another workspace unless it agrees with it or adopts it. with changes a member of a
// configuration; differs and its value are a change that is seen. Actions are those that change and, as the
// last one, remove what is there.
func BelongsToOne(t *testing.T, a Resource, with func(r Resource, member string, value any) Resource, differs string, value any, actions ...string) {
	t.Helper()
	remove := actions[len(actions)-1]
	a.Workspace = "/projects/a"
	made, _ := a.Apply(t)
	namesake, elsewhere := a, a
	namesake.Name, elsewhere.Workspace = "another", "/projects/b"
	belongs := "belongs to resource " + a.Name + " of /projects/a; give another name"
	namesake.Fails(t, belongs, "state")
	elsewhere.Valid(t) // another checkout of the same, which finds all as it should be
	other := with(elsewhere, differs, value)
	other.Fails(t, belongs, "state")
	for _, r := range []Resource{namesake, other} {
		for _, action := range actions[:len(actions)-1] {
			r.Fails(t, belongs, action)
		}
		r.Gone().Fails(t, belongs, "state")
		r.Gone().Fails(t, belongs, remove)
	}
	if now := a.Valid(t); now["id"] != made["id"] {
		t.Errorf("it was replaced: %v, and was %v", now["id"], made["id"])
	}
	with(other, "adopt", true).Apply(t)
	other.Valid(t) // it is theirs now
	a.Gone().Fails(t, "belongs to resource "+a.Name+" of /projects/b", remove)
}
