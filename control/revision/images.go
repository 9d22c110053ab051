package revision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

// ImagesName is the name of the images among what a revision carries; see VariablesName.
const ImagesName = "/images"

// imagesVersion is that of the form in which images are carried.
const imagesVersion = 1

// Image is an image as a manifest names it, with its content. Of one that a
// configuration names whose name is known only when that is applied, it is the expression.
type Image struct {
	Image    string `json:"image"`
	ID       string `json:"id,omitempty"`       // of its content in the engine that was asked
	Digest   string `json:"digest,omitempty"`   // of its content in a registry, if it was ever in one
	Unpinned string `json:"unpinned,omitempty"` // why its content is not known: it is what its name means wherever it is used
	Late     bool   `json:"late,omitempty"`     // its name is known only when it is applied, and must tell its content then

	For []string `json:"for,omitempty"` // types whose actions run it; something else may, too
}

// Described says in words which content it is.
func (i Image) Described() string {
	switch {
	case i.Unpinned != "":
		return "is unpinned: " + i.Unpinned
	case i.Late:
		return "is known only where it is applied, and must have a digest there"
	case i.Digest != "":
		return i.Digest
	default:
		return i.ID + ", of no registry"
	}
}

// Images are all of them.
type Images struct {
	Version    int     `json:"version"`
	Configured bool    `json:"configured,omitempty"` // those that configurations name are among them
	Actions    bool    `json:"actions,omitempty"`    // those that types name for their own actions are among them
	Unpinned   string  `json:"unpinned,omitempty"`   // why actions may also run images that are not among them, whatever these are
	Images     []Image `json:"images"`               // sorted
}

// DecodeImages reads what Encode wrote.
func DecodeImages(text []byte) (*Images, error) {
	var c Images
	err := json.Unmarshal(text, &c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("images: %w", err)
	case c.Version > imagesVersion:
		return nil, fmt.Errorf("images: they have the form %d, which this version does not know: use a newer one", c.Version)
	}
	return &c, nil
}

// Shown are the images as they are shown: what actions may run that is not carried is one of
// them.
func (c *Images) Shown() []Image {
	if c == nil || c.Unpinned == "" {
		return c.List()
	}
	return append(slices.Clone(c.Images), Image{Image: "(any that an action names)", Unpinned: c.Unpinned})
}

// List are the images, of a revision that may carry none.
func (c *Images) List() []Image {
	if c == nil {
		return nil
	}
	return c.Images
}

// At is an image with a digest instead of a tag.
func At(ref, digest string) string {
	name, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name + "@" + digest
}

// byContent matches references that tell the content of an image.
var byContent = pattern.Lazy(`(^|@)sha256:[0-9a-f]{64}$`)

// ByContent names the image by its content.
func (i Image) ByContent() string {
	if i.Digest != "" {
		return At(i.Image, i.Digest)
	}
	return i.ID
}

// IsContent reports whether a reference tells the content of an image.
func IsContent(ref string) bool { return byContent().MatchString(ref) }

// Encode writes them.
func (c Images) Encode() ([]byte, error) {
	c.Version = imagesVersion
	return encode(c)
}

// encode writes a document so that people can read it.
func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(document)
	return out.Bytes(), err
}
