package tfimage

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"
)

func mustTag(t *testing.T, text string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(text, name.WeakValidation)
	require.NoError(t, err)
	return tag
}

// resourceOf is the resource in the name of an image, "" of that of the provider.
func resourceOf(tag string) string {
	_, rest, _ := strings.Cut(tag, "terraform/fake/")
	resource, _, _ := strings.Cut(rest, ":")
	return resource
}

// filesOf are the contents of the files in a tar.
func filesOf(t *testing.T, from io.ReadCloser) map[string]string {
	t.Helper()
	defer from.Close()
	files := map[string]string{}
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = string(text)
	}
}
