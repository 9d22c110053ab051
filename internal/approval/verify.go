package approval

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/yaronf/httpsign"

	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
)

// The bounds of signed requests.
const (
	MaxSkew  = time.Minute      // by which a clock may be ahead of ours
	MaxAge   = 5 * time.Minute  // of a signature
	MaxLife  = 15 * time.Minute // from its creation to its expiry
	MaxBody  = 16 << 10
	bodyTime = 30 * time.Second // in which a body must have come
	maxField = 4 << 10
	maxNonce = 200
	minNonce = 16
)

// Request is what of an HTTP request is signed.
type Request struct {
	Method string
	URL    *url.URL // the target, absolute, as the client addressed it
	Header http.Header
	Body   []byte
}

// Refused is why a request is not believed. It is for the log of the server, and not for who
// sent the request.
type Refused struct{ cause error }

func (r *Refused) Error() string { return "the signature is refused: " + r.cause.Error() }

// Unwrap returns the cause.
func (r *Refused) Unwrap() error { return r.cause }

// Keys are those that the log of the pipeline has.
type Keys interface {
	Find(id, stage string, now time.Time) (approval.Key, error)
}

// covered is what a signature covers, no less and no more.
var covered = []string{"@method", "@target-uri", "content-digest"}

// nobody is verified against where no key is known, so that this takes as long as with one.
// It takes a moment to make, which no start of the program has to wait for.
var nobody = sync.OnceValue(func() ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
})

// Verify is whose approval a request is, at a stage, and what is recorded of its signature. Whether
// that served before is not looked at.
func Verify(r Request, keys Keys, stage string, now time.Time) (identity string, s record.Signature, err error) {
	label, s, err := readInput(r.Header)
	if err != nil {
		return "", s, &Refused{err}
	}
	key, unknown := keys.Find(s.Key, stage, now)
	public := key.PublicKey()
	if unknown != nil || public == nil {
		public = nobody()
	}
	wrong := verifySignature(r, label, public)
	wrongTime := checkTimes(s, now)
	digest := io.NopCloser(bytes.NewReader(r.Body))
	wrongDigest := httpsign.ValidateContentDigestHeader(r.Header.Values("Content-Digest"), &digest, []string{httpsign.DigestSha256})
	switch {
	case unknown != nil:
		err = unknown
	case key.PublicKey() == nil:
		err = fmt.Errorf("key %s is no public key", s.Key)
	case wrong != nil:
		err = fmt.Errorf("by key %s: it does not verify", s.Key)
	case wrongDigest != nil:
		err = fmt.Errorf("by key %s: the content digest is not that of the body", s.Key)
	case wrongTime != nil:
		err = fmt.Errorf("by key %s: %w", s.Key, wrongTime)
	}
	if err != nil {
		return "", s, &Refused{err}
	}
	return key.Identity(), s, nil
}

// verifySignature verifies the signature of a label. Signatures are compared by the library
// of the language, which takes the same time whatever they are.
func verifySignature(r Request, label string, public ed25519.PublicKey) error {
	config := httpsign.NewVerifyConfig().SetVerifyCreated(false).SetRejectExpired(false) // checkTimes does, by our clock
	verifier, err := httpsign.NewEd25519Verifier(public, config, httpsign.Headers(covered...))
	if err != nil {
		return err
	}
	target := *r.URL // the library completes it
	message, err := httpsign.NewMessage(httpsign.NewMessageConfig().WithMethod(r.Method).WithURL(&target).WithHeaders(r.Header).WithAuthority(target.Host).WithScheme(target.Scheme))
	if err != nil {
		return err
	}
	_, err = message.Verify(label, *verifier)
	return err
}

// readInput reads what the one signature of a request covers, and its parameters.
func readInput(header http.Header) (label string, s record.Signature, err error) {
	for _, name := range []string{"Signature-Input", "Signature", "Content-Digest"} {
		switch values := header.Values(name); {
		case len(values) != 1:
			return "", s, fmt.Errorf("it has %d fields %s, and must have one", len(values), name)
		case len(values[0]) > maxField:
			return "", s, fmt.Errorf("its field %s has more than %d bytes", name, maxField)
		}
	}
	inputs, err := httpsfv.UnmarshalDictionary(header.Values("Signature-Input"))
	if err != nil {
		return "", s, errors.New("its field Signature-Input is no dictionary")
	}
	if names := inputs.Names(); len(names) != 1 {
		return "", s, fmt.Errorf("it has %d signatures, and must have one", len(names))
	}
	label = inputs.Names()[0]
	member, _ := inputs.Get(label)
	list, ok := member.(httpsfv.InnerList)
	if !ok {
		return "", s, errors.New("its signature covers nothing")
	}
	var names []string
	for _, item := range list.Items {
		name, ok := item.Value.(string)
		if !ok || item.Params != nil && len(item.Params.Names()) > 0 {
			return "", s, errors.New("a component that it covers is no name, or has parameters")
		}
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, covered) {
		return "", s, fmt.Errorf("it must cover %q, and nothing else", covered)
	}
	s, err = readParameters(list.Params)
	return label, s, err
}

// readParameters reads the parameters of a signature, all of which must be known.
func readParameters(p *httpsfv.Params) (s record.Signature, err error) {
	algorithm := ""
	texts := map[string]*string{"keyid": &s.Key, "nonce": &s.Nonce, "alg": &algorithm}
	times := map[string]*int64{"created": &s.Created, "expires": &s.Expires}
	for _, name := range p.Names() {
		value, _ := p.Get(name)
		ok := false
		switch {
		case texts[name] != nil:
			*texts[name], ok = value.(string)
		case times[name] != nil:
			*times[name], ok = value.(int64)
		}
		if !ok {
			return s, fmt.Errorf("its parameter %q is not known, or of another type", name)
		}
	}
	switch {
	case s.Key == "":
		return s, errors.New("it has no keyid")
	case len(s.Nonce) < minNonce || len(s.Nonce) > maxNonce:
		return s, fmt.Errorf("its nonce must have %d to %d characters", minNonce, maxNonce)
	case s.Created <= 0 || s.Expires <= 0:
		return s, errors.New("it must say when it was created and when it expires")
	case algorithm != "" && algorithm != "ed25519":
		return s, errors.New("its algorithm is not ed25519")
	}
	return s, nil
}

// checkTimes refuses a signature that is not of now.
func checkTimes(s record.Signature, now time.Time) error {
	created, expires := time.Unix(s.Created, 0), time.Unix(s.Expires, 0)
	switch {
	case created.After(now.Add(MaxSkew)):
		return fmt.Errorf("it was created more than %s from now: compare the clocks", MaxSkew)
	case created.Before(now.Add(-MaxAge)):
		return fmt.Errorf("it was created more than %s ago", MaxAge)
	case !expires.After(now):
		return errors.New("it has expired")
	case expires.After(created.Add(MaxLife)):
		return fmt.Errorf("it expires more than %s after its creation", MaxLife)
	}
	return nil
}
