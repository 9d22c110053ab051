//go:build linux

package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/deployster-go/deployster/engine"
)

// Pull fetches an image from its registry, whatever the store has under this
// name, but not the layers that it has. Layers that came completely before a
// failure are there for the next attempt. progress, which may be nil, counts
// compressed bytes and is called from one goroutine at a time. Pull fails with
// engine.ErrNoImage if the registry does not give the image.
func (s *Store) Pull(ctx context.Context, ref string, progress func(engine.Progress)) (Image, error) {
	if progress == nil {
		progress = func(engine.Progress) {}
	}
	image, err := s.pull(ctx, ref, progress)
	if err != nil {
		return Image{}, fmt.Errorf("pull image %q: %w", ref, err)
	}
	return image, nil
}

func (s *Store) pull(ctx context.Context, ref string, progress func(engine.Progress)) (image Image, err error) {
	from, err := s.remote(ref)
	if err != nil {
		return Image{}, err
	}
	progress(engine.Progress{Image: ref})
	root, err := from.head(ctx)
	if err != nil {
		return Image{}, from.explain(ctx, err)
	}
	found, err := resolve(ctx, from, root, s.platform)
	if err != nil {
		return Image{}, from.explain(ctx, err)
	}
	found.subject, found.digest = fmt.Sprintf("%q", ref), root.Digest.String()
	found.names = []string{nameKey(from.named), from.named.Name() + "@" + found.digest}

	in, err := s.newWorkspace()
	if err != nil {
		return Image{}, err
	}
	defer func() { err = errors.Join(err, in.remove()) }()
	var total int64
	seen := map[v1.Hash]bool{}
	for _, layer := range found.layers {
		if !seen[layer.diffID] {
			seen[layer.diffID] = true
			total += layer.size
		}
	}
	added, err := s.add(ctx, in, []incoming{found}, counter(func(done int64) {
		progress(engine.Progress{Image: ref, Current: done, Total: total})
	}))
	if err != nil {
		return Image{}, err
	}
	return added[0], nil
}

// repository is where an image is pulled from.
type repository struct {
	named    reference.Named
	target   name.Reference
	puller   *remote.Puller
	keychain authn.Keychain
	root     []byte // what the reference leads to
	digest   v1.Hash
}

func (s *Store) remote(ref string) (*repository, error) {
	parsed, err := reference.ParseAnyReference(ref)
	if err != nil {
		return nil, err
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return nil, fmt.Errorf("%w: an id cannot be pulled; use the image's name", engine.ErrNoImage)
	}
	named = reference.TagNameOnly(named)
	target, err := name.ParseReference(named.String())
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(remote.WithAuthFromKeychain(s.keychain))
	if err != nil {
		return nil, err
	}
	return &repository{named: named, target: target, puller: puller, keychain: s.keychain}, nil
}

// head fetches what the reference leads to.
func (r *repository) head(ctx context.Context) (v1.Descriptor, error) {
	found, err := r.puller.Get(ctx, r.target)
	if err != nil {
		return v1.Descriptor{}, err
	}
	r.root, r.digest = found.Manifest, found.Digest
	return found.Descriptor, nil
}

// blob fetches a part of an image.
func (r *repository) blob(ctx context.Context, of v1.Descriptor) (io.ReadCloser, error) {
	at := r.target.Context().Digest(of.Digest.String())
	switch {
	case of.Digest == r.digest:
		return io.NopCloser(bytes.NewReader(r.root)), nil
	case of.MediaType.IsImage(), of.MediaType.IsIndex():
		found, err := r.puller.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(found.Manifest)), nil
	default:
		layer, err := r.puller.Layer(ctx, at)
		if err != nil {
			return nil, err
		}
		return layer.Compressed()
	}
}

// explain reports why the registry does not give an image.
func (r *repository) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || engine.Exhausted(err) {
		return err
	}
	if unreachable(err) {
		return fmt.Errorf("%w; check the registry's name and your network", &engine.UnreachableError{Registry: reference.Domain(r.named), Cause: err})
	}
	if advice := r.advice(ctx, err); advice != "" {
		return fmt.Errorf("%w: %w; %s", engine.ErrNoImage, err, advice)
	}
	return fmt.Errorf("%w: %w", engine.ErrNoImage, err)
}

// unreachable reports whether it is not the registry that gave the answer.
func unreachable(err error) bool {
	var answer *transport.Error
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	if errors.As(err, &answer) || errors.As(err, &certificate) || errors.As(err, &authority) {
		return false
	}
	var unknown *net.DNSError
	var network *net.OpError
	return errors.As(err, &unknown) || errors.As(err, &network)
}

func (r *repository) advice(ctx context.Context, err error) string {
	host := reference.Domain(r.named)
	var answer *transport.Error
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		if shown, err := authn.Resolve(ctx, r.keychain, r.target.Context()); err == nil && shown != authn.Anonymous {
			return fmt.Sprintf("registry %s does not accept the credentials of Docker's configuration for this image: `docker login %s`", host, host)
		}
		return fmt.Sprintf("registry %s wants credentials: `docker login %s`", host, host)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fmt.Sprintf("registry %s does not have it: check name, tag and digest", host)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusTooManyRequests:
		return fmt.Sprintf("registry %s wants you to wait, or to `docker login %s`", host, host)
	case errors.As(err, &certificate), errors.As(err, &authority), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return fmt.Sprintf("registry %s is not trusted: check its certificate", host)
	default:
		return ""
	}
}
