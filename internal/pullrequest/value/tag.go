package value

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

var validTag = pattern.Lazy(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$`)

// TagOf is the tag of an image as NAME:TAG, "" where it has none.
func TagOf(image string) (string, error) {
	_, tag, err := split(image)
	return tag, err
}

// WithTag is an image with another tag.
func WithTag(image, tag string) (string, error) {
	if !validTag().MatchString(tag) {
		return "", fmt.Errorf("%q cannot be the tag of an image: letters, digits, _ . and - are possible, up to 128", tag)
	}
	name, _, err := split(image)
	if err != nil {
		return "", err
	}
	return name + ":" + tag, nil
}

func split(image string) (name, tag string, err error) {
	if strings.ContainsAny(image, "${}") {
		return "", "", fmt.Errorf("image %s has a variable, so its tag is not known: write it as NAME:TAG", image)
	}
	if strings.Contains(image, "@") {
		return "", "", fmt.Errorf("image %s is named by its digest, which no tag changes: name it by a tag", image)
	}
	colon := strings.LastIndexByte(image, ':')
	if colon < 0 || strings.Contains(image[colon:], "/") { // that is the port of a registry
		return image, "", nil
	}
	if name, tag = image[:colon], image[colon+1:]; !validTag().MatchString(tag) {
		return "", "", fmt.Errorf("image %s has no tag behind its last colon: write it as NAME:TAG", image)
	}
	return name, tag, nil
}
