package allow

import (
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/deployster-go/deployster/internal/pattern"
)

// shippedPrefix is what the types begin with that ship with the program. They are no images of a registry: a type of
// that name with a tag or a registry is another one.
const shippedPrefix = "deployster/"

// Shipped reports whether a type is named as those that ship are.
func Shipped(typ string) bool {
	name, is := strings.CutPrefix(typ, shippedPrefix)
	return is && name != "" && !strings.ContainsAny(name, ":@/")
}

// Type reports whether a revision may have resources of a type. fixed is that the rules name its tag.
func (r *Rules) Type(typ string) (ok, fixed bool) {
	if r == nil {
		return false, false
	}
	if Shipped(typ) {
		return slices.ContainsFunc(r.Types, func(p string) bool { return Shipped(p) && glob(p, typ) }), false
	}
	return anyImage(r.Types, typ)
}

// Image reports whether a configuration of a revision may name an image. fixed is that the rules name its tag: the
// content that somebody says it has is not believed then.
func (r *Rules) Image(ref string) (ok, fixed bool) {
	if r == nil {
		return false, false
	}
	return anyImage(r.Images, ref)
}

func anyImage(patterns []string, ref string) (ok, fixed bool) {
	asked, valid := parseImage(ref)
	if !valid {
		return false, false
	}
	fixed = true
	for _, text := range patterns {
		if Shipped(text) {
			continue
		}
		switch p, valid := parsePattern(text); {
		case !valid || !p.covers(asked):
		case p.tag == "" && p.digest == "":
			return true, false
		default:
			ok, fixed = true, fixed && p.tag != ""
		}
	}
	return ok, ok && fixed
}

// image is a reference, or a pattern of such, in its parts.
type image struct{ repository, tag, digest string }

// covers reports whether a pattern covers an image. A tag is no promise if there is a digest: that counts then.
func (p image) covers(asked image) bool {
	same := p.repository == asked.repository || glob(p.repository, asked.repository) && !asked.mayBeID()
	switch {
	case !same:
		return false
	case p.digest != "":
		return p.digest == asked.digest
	case p.tag != "":
		return asked.digest == "" && glob(p.tag, asked.tag)
	default:
		return true
	}
}

var (
	hexName = pattern.Lazy(`^docker\.io/library/[0-9a-f]+$`)
	bareID  = pattern.Lazy(`^(sha256:)?[0-9a-f]{64}$`)
)

// mayBeID reports whether an engine may take the name for the beginning of the id of an image.
func (p image) mayBeID() bool { return p.digest == "" && hexName().MatchString(p.repository) }

// parseImage reads a reference in its normalized form. The id of a content is none: it says nothing of where it is from.
func parseImage(text string) (p image, ok bool) {
	if bareID().MatchString(text) {
		return p, false
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return p, false
	}
	p.repository = named.Name()
	if tagged, is := named.(reference.Tagged); is {
		p.tag = tagged.Tag()
	}
	if digested, is := named.(reference.Digested); is {
		p.digest = digested.Digest().String()
	}
	return p, true
}

// parsePattern reads a pattern: a reference in which * may stand for what is in one part of its repository or its tag,
// and /** at the end of the repository for all that is below.
func parsePattern(text string) (p image, ok bool) {
	plain := strings.NewReplacer("/**", "/x", "*", "x").Replace(text)
	if _, ok = parseImage(plain); !ok {
		return p, false
	}
	name, digest, _ := strings.Cut(text, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, p.tag = name[:i], name[i+1:]
	}
	first, rest, several := strings.Cut(name, "/")
	switch {
	case !several:
		name = "docker.io/library/" + name
	case first == "docker.io" || first == "index.docker.io":
		if name = "docker.io/" + rest; !strings.Contains(rest, "/") {
			name = "docker.io/library/" + rest
		}
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	p.repository, p.digest = name, digest
	return p, true
}

// SameImage reports whether an image is one that the definition names itself: of the same repository, and of the
// same content if the definition names that.
func SameImage(own, asked string) bool {
	a, ok := parseImage(own)
	b, valid := parseImage(asked)
	switch {
	case own == asked:
		return true
	case !ok || !valid || a.repository != b.repository:
		return false
	default:
		return a.digest == "" || a.digest == b.digest
	}
}
