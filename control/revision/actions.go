package revision

import (
	"fmt"
	"slices"
)

// Holds reports whether the content of the image of a type is carried, or known to be
// unpinned.
func (c *Images) Holds(ref string) bool {
	return slices.ContainsFunc(c.List(), func(i Image) bool { return i.Image == ref })
}

// Of are the images that the actions of a type run.
func (c *Images) Of(typ string) (all []Image) {
	for _, i := range c.List() {
		if slices.Contains(i.For, typ) {
			all = append(all, i)
		}
	}
	return all
}

// RefuseAction fails for an image that an action names and that is not carried, where all of
// those are that types name in advance: which content it has on a host is nothing that the
// revision says.
func (c *Images) RefuseAction(ref string) error {
	if c == nil || !c.Actions || c.Unpinned != "" || IsContent(ref) || c.Holds(ref) {
		return nil
	}
	return fmt.Errorf("the revision does not carry which content it has: an action names it, and init of its type did not; name it by its digest, as NAME@sha256:…, or in action_images of init, and make a new revision, or one with --allow-unpinned where whatever it is on each host will do")
}
