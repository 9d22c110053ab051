package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// How the keys of an issuer are asked for.
const (
	askEvery   = 30 * time.Second // no more often, whatever tokens say
	askTimeout = 5 * time.Second
	fresh      = time.Hour      // then they are asked for anew, so that what was withdrawn ends
	usable     = 24 * time.Hour // so long where the issuer does not answer
	mostAnswer = 1 << 20
	mostKeys   = 200
)

// errUnreachable is wrapped where the keys of an issuer are needed and are not to be had.
var errUnreachable = errors.New("the issuer of the token cannot be asked for its keys")

// keys are those with which an issuer signs, as it publishes them.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time

	asking sync.Mutex // held by the one who asks

	mu    sync.Mutex
	byID  map[string][]jose.JSONWebKey
	got   time.Time // when it last answered
	asked time.Time // when it was last asked
	wrong error     // what came of that
}

// newKeys are the keys of an issuer, which is not asked yet.
func newKeys(of Issuer, now func() time.Time) (*keys, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if of.CA != "" {
		text, err := os.ReadFile(of.CA)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities of issuer %s: %w", of.Name, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("reading the authorities of issuer %s: %s has no certificate in PEM", of.Name, of.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Timeout: askTimeout, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it redirects, which is not followed")
	}}
	return &keys{issuer: of.URL, client: client, now: now}, nil
}

// find are the keys of an id. Where the id is not known the issuer is asked, no more often
// than now and then; none is returned where it does not know it either.
func (k *keys) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	found, enough, err := k.known(id)
	if enough {
		return found, err
	}
	switch {
	case k.asking.TryLock():
	case len(found) > 0: // somebody asks already whether they have changed
		return found, nil
	default:
		k.asking.Lock()
	}
	defer k.asking.Unlock()
	if found, enough, err := k.known(id); enough { // somebody else has asked meanwhile
		return found, err
	}
	// Who asks for this may go; what is learned is for all.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*askTimeout)
	defer cancel()
	all, err := k.ask(ctx)
	k.mu.Lock()
	k.asked, k.wrong = k.now(), err
	if err == nil {
		k.byID, k.got = all, k.asked
	}
	k.mu.Unlock()
	found, _, err = k.known(id)
	return found, err
}

// known are the keys of an id without asking; enough is false where it is time to ask.
func (k *keys) known(id string) (found []jose.JSONWebKey, enough bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	age := now.Sub(k.got)
	may := k.asked.IsZero() || now.Sub(k.asked) >= askEvery || now.Before(k.asked) // by a clock that was set back
	if k.byID != nil && -usable < age && age < usable {
		found = k.byID[id]
	}
	switch {
	case len(found) > 0 && (0 <= age && age < fresh || !may):
		return found, true, nil
	case may:
		return found, false, nil
	case len(found) > 0 || k.wrong == nil:
		return found, true, nil
	default:
		return nil, true, k.wrong
	}
}

// ask asks the issuer for its keys.
func (k *keys) ask(ctx context.Context) (map[string][]jose.JSONWebKey, error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := k.get(ctx, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration", &about); err != nil {
		return nil, err
	}
	if about.Issuer != k.issuer {
		return nil, fmt.Errorf("%w: at %s another one answers, %.200q", errUnreachable, k.issuer, about.Issuer)
	}
	if wrong := checkIssuer(about.Keys); wrong != "" {
		return nil, fmt.Errorf("%w: where %s has its keys is %.200q, which %s", errUnreachable, k.issuer, about.Keys, wrong)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, about.Keys, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > mostKeys {
		return nil, fmt.Errorf("%w: %s has %d keys, more than %d", errUnreachable, k.issuer, len(set.Keys), mostKeys)
	}
	all := map[string][]jose.JSONWebKey{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// Those of kinds that are not known are of no use, and neither are those that others
		// could sign with who know them, as all do.
		if key.UnmarshalJSON(raw) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		all[key.KeyID] = append(all[key.KeyID], key)
	}
	return all, nil
}

// get reads a document of the issuer.
func (k *keys) get(ctx context.Context, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s answers %d", errUnreachable, url, answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: reading %s: %w", errUnreachable, url, err)
	case len(text) > mostAnswer:
		return fmt.Errorf("%w: %s answers more than 1 MiB", errUnreachable, url)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: what %s answers is not what it should be", errUnreachable, url)
	}
	return nil
}
