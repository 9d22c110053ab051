package tracing

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The variables of the exporter, as OpenTelemetry specifies them. Those for traces alone come
// first.
const (
	general = "OTEL_EXPORTER_OTLP_"
	traces  = "OTEL_EXPORTER_OTLP_TRACES_"
)

// defaultTimeout is how long it may take to send spans.
const defaultTimeout = 10 * time.Second

// destination is where spans are sent. It implements otlptrace.Client.
type destination struct {
	url     string
	headers http.Header
	client  *http.Client
	failed  func(error) // receives why spans were not sent
}

// endpointOf is the URL to which the environment has spans sent; "" is that it does not.
func endpointOf(getenv func(string) string) (string, error) {
	at := getenv(traces + "ENDPOINT")
	if base := getenv(general + "ENDPOINT"); at == "" && base != "" {
		at = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if at == "" && exporter == "otlp" {
		at = "http://localhost:4318/v1/traces"
	}
	if at == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	if exporter != "" && exporter != "otlp" {
		return "", fmt.Errorf("OTEL_TRACES_EXPORTER is %q: otlp and none are possible", exporter)
	}
	if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%sENDPOINT must be a URL, as http://127.0.0.1:4318 is", general)
	}
	return at, nil
}

// destinationOf is where the environment has spans sent; nil is nowhere.
func destinationOf(getenv func(string) string) (*destination, error) {
	at, err := endpointOf(getenv)
	if at == "" || err != nil {
		return nil, err
	}
	either := func(name string) string { return cmp.Or(getenv(traces+name), getenv(general+name)) }
	if p := either("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("%sPROTOCOL is %q: http/protobuf is possible, whose port is 4318", general, p)
	}
	d := &destination{url: at, headers: headersOf(either("HEADERS")), client: &http.Client{Timeout: defaultTimeout}, failed: func(error) {}}
	if text := either("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%sTIMEOUT is %q: it must be a number of milliseconds", general, text)
		}
		d.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if path := either("CERTIFICATE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%sCERTIFICATE: %w", general, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%sCERTIFICATE: %s has no certificate in PEM", general, path)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	d.client.Transport = transport
	return d, nil
}

// headersOf reads NAME=VALUE,…, whose values are encoded as those of URLs. They may hold
// secrets, so what cannot be read is left out and not quoted.
func headersOf(list string) http.Header {
	headers := http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); name != "" && ok && err == nil {
			headers.Add(name, value)
		}
	}
	return headers
}

// Start implements otlptrace.Client.
func (d *destination) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (d *destination) Stop(context.Context) error {
	d.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. What is not taken is dropped: the run goes on, and
// its log has it all.
func (d *destination) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if err := d.send(ctx, spans); err != nil {
		d.failed(err)
	}
	return nil
}

func (d *destination) send(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData is a request of OTLP by another name: both have the spans as their field 1.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encoding them: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the collector is wrong")
	}
	r.Header = d.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := d.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // nothing of it matters
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers %s", answer.Status)
	}
	return nil
}
