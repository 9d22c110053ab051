package tfpackage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Bounds of what a registry answers, in bytes.
const (
	maxDocument = 16 << 20
	maxArchive  = 2 << 30
)

// registry asks the registry that a provider is in.
func (f Finder) registry(ctx context.Context, provider, version string) (Package, error) {
	base, namespace, name, err := f.address(provider)
	if err != nil {
		return Package{}, err
	}
	p, err := f.download(ctx, base, namespace, name, version)
	if err != nil {
		return Package{}, fmt.Errorf("fetching the provider %s/%s%s from %s: %w", namespace, name, ofVersion(version), base.Host, err)
	}
	return p, nil
}

// address is where a provider is: in the registry of its host, or in the one that is
// configured.
func (f Finder) address(provider string) (base *url.URL, namespace, name string, err error) {
	parts := strings.Split(provider, "/")
	registry := f.Registry
	switch len(parts) {
	case 1:
		parts = []string{"hashicorp", parts[0]} // as Terraform has it
	case 2:
	case 3:
		registry, parts = "https://"+parts[0], parts[1:]
	}
	if len(parts) != 2 || !namePattern().MatchString(parts[0]) || !namePattern().MatchString(parts[1]) {
		return nil, "", "", fmt.Errorf("%q is neither a file nor a directory, nor a name such as NAMESPACE/NAME of a provider in a registry", provider)
	}
	if registry == "" {
		return nil, "", "", fmt.Errorf("%q is neither a file nor a directory; to fetch it from a registry, say which: --registry URL, DEPLOYSTER_TERRAFORM_REGISTRY, or HOST/%s/%s", provider, parts[0], parts[1])
	}
	base, err = url.Parse(registry)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, "", "", fmt.Errorf("the registry %q must be an address that begins with https://", registry)
	}
	return base, parts[0], parts[1], nil
}

func (f Finder) download(ctx context.Context, base *url.URL, namespace, name, version string) (Package, error) {
	var services struct {
		Providers string `json:"providers.v1"`
	}
	at, err := f.document(ctx, base.JoinPath("/.well-known/terraform.json"), &services)
	if err != nil {
		return Package{}, err
	}
	if services.Providers == "" {
		return Package{}, errors.New("it says that it has no providers (providers.v1)")
	}
	providers, err := at.Parse(services.Providers)
	if err != nil {
		return Package{}, fmt.Errorf("it says that its providers are at %q: %w", services.Providers, err)
	}
	providers = providers.JoinPath(namespace, name)
	if version == "" {
		if version, err = f.newest(ctx, providers); err != nil {
			return Package{}, err
		}
	}
	var found struct {
		URL    string `json:"download_url"`
		SHA256 string `json:"shasum"`
	}
	at, err = f.document(ctx, providers.JoinPath(version, "download", f.OS, f.Arch), &found)
	if err != nil {
		return Package{}, err
	}
	archive, err := at.Parse(found.URL)
	if err != nil || found.URL == "" {
		return Package{}, fmt.Errorf("it says that the package is at %q, which is no address", found.URL)
	}
	return f.fetch(ctx, archive, found.SHA256, Package{Name: name, Version: version})
}

// newest is the newest version for the platform that is not a preliminary one.
func (f Finder) newest(ctx context.Context, provider *url.URL) (string, error) {
	var list struct {
		Versions []struct {
			Version   string `json:"version"`
			Platforms []struct {
				OS   string `json:"os"`
				Arch string `json:"arch"`
			} `json:"platforms"`
		} `json:"versions"`
	}
	if _, err := f.document(ctx, provider.JoinPath("versions"), &list); err != nil {
		return "", err
	}
	newest := ""
	for _, v := range list.Versions {
		if !versionPattern().MatchString(v.Version) || semver.Prerelease("v"+v.Version) != "" {
			continue
		}
		for _, p := range v.Platforms {
			if p.OS == f.OS && p.Arch == f.Arch && (newest == "" || semver.Compare("v"+v.Version, "v"+newest) > 0) {
				newest = v.Version
			}
		}
	}
	if newest == "" {
		return "", fmt.Errorf("it has no version for %s/%s", f.OS, f.Arch)
	}
	return newest, nil
}

// document reads a document of JSON, and returns where it was in the end.
func (f Finder) document(ctx context.Context, from *url.URL, into any) (*url.URL, error) {
	resp, err := f.get(ctx, from)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", from.Redacted(), err)
	case len(text) > maxDocument:
		return nil, fmt.Errorf("reading %s: it has more than %d bytes", from.Redacted(), maxDocument)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("reading %s: %w", from.Redacted(), err)
	}
	return resp.Request.URL, nil
}

func (f Finder) get(ctx context.Context, from *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s is not there: is it spelled right, and is there a package for %s/%s?", from.Redacted(), f.OS, f.Arch)
	}
	return nil, fmt.Errorf("%s was answered with %s", from.Redacted(), resp.Status)
}

// fetch downloads the archive of a package, checks that it is what the registry says, and
// takes the program out of it.
func (f Finder) fetch(ctx context.Context, from *url.URL, sum string, p Package) (_ Package, err error) {
	if from.Scheme == "http" && !slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, from.Hostname()) {
		return Package{}, fmt.Errorf("its package is at %s, which is not secured: https is needed", from.Redacted())
	}
	if want, err := hex.DecodeString(sum); err != nil || len(want) != sha256.Size {
		return Package{}, errors.New("it does not say what the package must be (shasum)")
	}
	dir, err := os.MkdirTemp(f.Temp, "deployster-package-")
	if err != nil {
		return Package{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p.Path = filepath.Join(dir, programPrefix+p.Name+".zip")
	got, err := f.save(ctx, from, p.Path)
	if err != nil {
		return Package{}, err
	}
	if !strings.EqualFold(got, sum) {
		return Package{}, fmt.Errorf("the package at %s is not the one that the registry names: its SHA-256 is %s, not %s", from.Redacted(), got, sum)
	}
	return f.unpack(p)
}

// save writes what is at an address to a file, and returns its hash.
func (f Finder) save(ctx context.Context, from *url.URL, path string) (sum string, err error) {
	resp, err := f.get(ctx, from)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(resp.Body, maxArchive+1))
	if err == nil && n > maxArchive {
		err = fmt.Errorf("%s has more than %d bytes", from.Redacted(), int64(maxArchive))
	}
	return hex.EncodeToString(hash.Sum(nil)), err
}
