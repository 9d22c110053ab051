package artifacts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/deployster-go/deployster/internal/registryauth"
)

// Progress is how far a push or pull is.
type Progress struct{ Done, Total int64 } // bytes

// repository is where artifacts are pushed to and pulled from, with the credentials of
// Docker's configuration file and its credential helpers.
type repository struct {
	name   name.Repository
	puller *remote.Puller
	pusher *remote.Pusher
}

func open(in name.Repository) (*repository, error) {
	options := []remote.Option{remote.WithAuthFromKeychain(registryauth.Keychain{}), remote.WithTransport(guarded{impatient{remote.DefaultTransport, silence}})}
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, err
	}
	pusher, err := remote.NewPusher(options...)
	if err != nil {
		return nil, err
	}
	return &repository{in, puller, pusher}, nil
}

// parseRepository reads REGISTRY/REPOSITORY, in which the registry must be named.
func parseRepository(text string) (name.Repository, error) {
	repo, err := name.NewRepository(text, name.StrictValidation)
	if err != nil {
		return repo, fmt.Errorf("%w; write REGISTRY/REPOSITORY, such as registry.example.org/builds", err)
	}
	return repo, nil
}

// parseReference reads REGISTRY/REPOSITORY@DIGEST or REGISTRY/REPOSITORY:TAG.
func parseReference(text string) (ref name.Reference, err error) {
	if strings.Contains(text, "@") {
		ref, err = name.NewDigest(text, name.StrictValidation)
	} else {
		ref, err = name.NewTag(text, name.StrictValidation)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; write REGISTRY/REPOSITORY@sha256:… or REGISTRY/REPOSITORY:TAG", err)
	}
	return ref, nil
}

// maxAnswer is how large what a registry says about an artifact may be, in bytes.
const maxAnswer = 1 << 20

// guarded sends nothing in the clear but to this machine, and reads no huge manifests.
type guarded struct{ inner http.RoundTripper }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !isLoopback(r.URL) {
		return nil, fmt.Errorf("%s would be asked without encryption, which only a registry on this machine is: let it serve HTTPS", r.URL.Host)
	}
	answer, err := g.inner.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, "/manifests/") && answer.Body != nil {
		answer.Body = &limitedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// limitedBody fails once there is more than there may be.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &RefusedError{Reason: fmt.Sprintf("its manifest has more than %d bytes, so that it is no artifact of a build", maxAnswer)}
	}
	return n, err
}

// manifest is a document that a registry keeps by its digest.
type manifest []byte

func (m manifest) RawManifest() ([]byte, error)        { return m, nil }
func (m manifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// explainRemote adds what to do to an error of a registry.
func (r *repository) explainRemote(ctx context.Context, err error) error {
	refused := new(RefusedError)
	if err == nil || ctx.Err() != nil || errors.As(err, &refused) {
		return err
	}
	host := r.name.RegistryStr()
	var answer *transport.Error
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var network *net.OpError
	var unknown *net.DNSError
	var silent *silentError
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return &deniedError{fmt.Errorf("%w; registry %s does not let you: `docker login %s`, with credentials for %s", err, host, host, r.name.RepositoryStr())}
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return &absentError{fmt.Errorf("%w; registry %s does not have it: check name, tag and digest", err, host)}
	case errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Errorf("%w; registry %s is not trusted: check its certificate", err, host)
	case !errors.As(err, &answer) && (errors.As(err, &network) || errors.As(err, &unknown) || errors.As(err, &silent)):
		return fmt.Errorf("%w; registry %s does not answer: check its name and your network", err, host)
	default:
		return err
	}
}

// ErrDenied is wrapped where a registry does not let the user do something.
var ErrDenied = errors.New("is denied")

// deniedError is that a registry does not let the user; it is ErrDenied, too.
type deniedError struct{ error }

func (e *deniedError) Unwrap() error     { return e.error }
func (e *deniedError) Is(err error) bool { return err == ErrDenied }

// absentError is that a registry has no such thing; it is ErrMissing, too.
type absentError struct{ error }

func (e *absentError) Unwrap() error     { return e.error }
func (e *absentError) Is(err error) bool { return err == ErrMissing }

// blobOf is the layer of an artifact as a client of a registry wants it.
type blobOf struct {
	store    *Store
	of       v1.Descriptor
	ctx      context.Context
	progress func(int64) // bytes more
}

// Digest, DiffID, Size and MediaType describe the layer.
func (b blobOf) Digest() (v1.Hash, error)             { return b.of.Digest, nil }
func (b blobOf) DiffID() (v1.Hash, error)             { return b.of.Digest, nil }
func (b blobOf) Size() (int64, error)                 { return b.of.Size, nil }
func (b blobOf) MediaType() (types.MediaType, error)  { return b.of.MediaType, nil }
func (b blobOf) Uncompressed() (io.ReadCloser, error) { return b.Compressed() }
