package locked

import (
	"fmt"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/internal/lockfile"
)

// Encode is what a run carries of a lock that is carried out elsewhere, under revision.ImagesName.
// all refuses there what the lock does not have.
func Encode(f *lockfile.File, all bool) ([]byte, error) {
	return revision.Images{Actions: all, Images: Carried(f)}.Encode()
}

// Decoded makes images available as what Encode made says.
func Decoded(text []byte, holder revision.Holder) (revision.Pinned, error) {
	sent, err := revision.DecodeImages(text)
	if err != nil {
		return revision.Pinned{}, err
	}
	return pinned(sent.List(), holder, sent.Actions), nil
}

// Pinned makes images available with the contents that a lock has.
func Pinned(carried []revision.Image, holder revision.Holder) revision.Pinned {
	return revision.Pinned{Holder: holder, Carried: carried, Carrier: lockfile.Name, Anew: `lock what there is now with "deployster lock --upgrade"`}
}

func pinned(carried []revision.Image, holder revision.Holder, all bool) revision.Pinned {
	p := Pinned(carried, holder)
	if all {
		p.Refuse = func(ref string) error { return refuse(carried, ref) }
	}
	return p
}

// Check refuses an image that a lock does not have, where it must.
func Check(f *lockfile.File, ref string) error { return refuse(Carried(f), ref) }

func refuse(carried []revision.Image, ref string) error {
	if Fixed(ref) {
		return nil
	}
	for _, c := range carried {
		if c.Image == ref {
			return nil
		}
	}
	return fmt.Errorf(`image %s is not in %s, and --locked uses nothing else: add it with "deployster lock MANIFEST", and keep that file with the manifests`, ref, lockfile.Name)
}
