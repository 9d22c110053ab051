package kubewatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	kubejson "k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// The bounds of requests. Objects that etcd keeps are smaller by far.
const (
	answerTime = 20 * time.Second // of all requests but watches
	watchTime  = 4 * time.Minute  // after which one is made anew
	quietTime  = 90 * time.Second // without a line of a watch; bookmarks come about once in a minute
	mostAnswer = 64 << 20         // bytes of an answer
	mostEvent  = 8 << 20          // bytes of an event of a watch
	mostStatus = 64 << 10         // bytes of a refusal that are read
	pageSize   = 500              // objects that are asked for at once
	mostPages  = 1000
)

// client asks the API server of a cluster.
type client struct {
	cluster string
	reached reached
	quiet   time.Duration // after which a watch that says nothing is made anew
	base    *url.URL
	http    *http.Client
}

func newClient(cluster string, to reached, config *rest.Config, quiet time.Duration) (*client, error) {
	failed := func(err error) (*client, error) {
		return nil, &Error{Cluster: cluster, Attempt: "read how it is reached", Cause: err}
	}
	config.UserAgent = "deployster"
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return failed(err)
	}
	made, err := rest.HTTPClientFor(config)
	if err != nil {
		return failed(err)
	}
	own := *made // it may be one that others use
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{cluster: cluster, reached: to, quiet: quiet, base: base, http: &own}, nil
}

// close closes the connections that nobody uses. Those of the transport are within what adds credentials.
func (c *client) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// resource is where the objects of a kind are.
type resource struct {
	watchKey
	prefix     string // of its API
	name       string // in the plural
	namespaced bool
}

func (r resource) path() string {
	if r.namespace == "" {
		return path.Join(r.prefix, r.name)
	}
	return path.Join(r.prefix, "namespaces", r.namespace, r.name)
}

// String names them as messages do.
func (r resource) String() string {
	if r.group == "" {
		return r.name
	}
	return r.name + "." + r.group
}

// resource finds out where the objects of a kind are.
func (c *client) resource(ctx context.Context, of watchKey) (r resource, err error) {
	r = resource{watchKey: of, prefix: path.Join("/apis", of.group, of.version)}
	if of.group == "" {
		r.prefix = path.Join("/api", of.version)
	}
	missing := &Error{Cluster: c.cluster, Attempt: "find kind " + of.kind, Cause: fmt.Errorf("it has no kind %s of %s: its CustomResourceDefinition is not installed, or not in this version", of.kind, strings.Trim(of.group+"/"+of.version, "/"))}
	if of.version == "" {
		var group struct {
			Preferred struct {
				Version string `json:"version"`
			} `json:"preferredVersion"`
		}
		if err := c.get(ctx, "find kind "+of.kind, r.prefix, nil, &group); err != nil {
			return r, asMissing(err, missing)
		}
		if strings.ContainsAny(group.Preferred.Version, "/?.") || group.Preferred.Version == "" {
			return r, missing
		}
		r.prefix = path.Join(r.prefix, group.Preferred.Version)
	}
	var list struct {
		Resources []struct {
			Name       string `json:"name"`
			Kind       string `json:"kind"`
			Namespaced bool   `json:"namespaced"`
		} `json:"resources"`
	}
	if err := c.get(ctx, "find kind "+of.kind, r.prefix, nil, &list); err != nil {
		return r, asMissing(err, missing)
	}
	for _, one := range list.Resources {
		if one.Kind == of.kind && one.Name != "" && !strings.ContainsAny(one.Name, "/?.") {
			r.name, r.namespaced = one.Name, one.Namespaced
		}
	}
	switch {
	case r.name == "":
		return r, missing
	case r.namespaced && of.namespace == "":
		return r, &Error{Cluster: c.cluster, Attempt: "watch " + r.String(), Cause: errors.New("each of them is in a namespace, and none is named")}
	case !r.namespaced && of.namespace != "":
		return r, &Error{Cluster: c.cluster, Attempt: "watch " + r.String(), Cause: fmt.Errorf("they are in no namespace, and %s is named", of.namespace)}
	}
	return r, nil
}

func asMissing(err error, missing *Error) error {
	if refused, is := errors.AsType[*Error](err); is && refused.Status == http.StatusNotFound {
		return missing
	}
	return err
}

// item is an object as it comes.
type item struct {
	name, version string
	raw           json.RawMessage
}

func (i *item) UnmarshalJSON(raw []byte) error {
	var head struct {
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("what answers is no API server: %w", err)
	}
	i.name, i.version, i.raw = head.Metadata.Name, head.Metadata.Version, bytes.Clone(raw)
	return nil
}

// live is the object, without who manages its fields.
func (i *item) live() (o map[string]any, err error) {
	if err := kubejson.Unmarshal(i.raw, &o); err != nil {
		return nil, fmt.Errorf("what answers is no API server: %w", err)
	}
	if metadata, is := o["metadata"].(map[string]any); is {
		delete(metadata, "managedFields")
	}
	return o, nil
}

// list calls found with the objects that are wanted, and returns the version of all.
func (c *client) list(ctx context.Context, r resource, wants func(name string) bool, found func(name string, live map[string]any)) (version string, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for range mostPages {
		var page struct {
			Metadata struct {
				Version  string `json:"resourceVersion"`
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []item `json:"items"`
		}
		if err := c.get(ctx, "list "+r.String(), r.path(), query, &page); err != nil {
			return "", err
		}
		if page.Metadata.Version == "" {
			return "", fmt.Errorf("cluster %s: list %s: what answers is no API server: its list has no version", c.cluster, r)
		}
		for _, one := range page.Items {
			if !wants(one.name) {
				continue
			}
			live, err := one.live()
			if err != nil {
				return "", err
			}
			found(one.name, live)
		}
		if page.Metadata.Continue == "" {
			return page.Metadata.Version, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return "", &Error{Cluster: c.cluster, Attempt: "list " + r.String(), Cause: fmt.Errorf("there are more than %d", mostPages*pageSize)}
}

// errExpired is that a watch cannot go on where it ended.
var errExpired = errors.New("the version is too old")

// errQuiet is that a watch says nothing, not even that nothing has happened.
var errQuiet = errors.New("the watch says nothing")

// errNoAnswer is that a request was not answered in time.
var errNoAnswer = fmt.Errorf("no answer within %s", answerTime)

// follower is told of what becomes of objects.
type follower struct {
	begun   func() // the server tells of all that happens from now on
	wants   func(name string) bool
	changed func(name string, live map[string]any) // nil where it is gone
}

// watch tells what becomes of the objects since a version, until the server ends that. It returns
// the version from which it goes on.
func (c *client) watch(ctx context.Context, r resource, version string, to follower) (string, error) {
	const late = 30 * time.Second
	attempt := "watch " + r.String()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(watchTime+late, func() { cancel(errors.New("the watch did not end in time")) }).Stop()
	silence := time.AfterFunc(answerTime, func() { cancel(errNoAnswer) })
	defer silence.Stop()
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(int(watchTime.Seconds()))}}
	body, err := c.request(ctx, attempt, r.path(), query)
	if refused, is := errors.AsType[*Error](err); is && refused.Status == http.StatusGone {
		return version, errExpired
	}
	if err != nil {
		return version, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	silence.Stop()
	quiet := time.AfterFunc(c.quiet, func() { cancel(errQuiet) })
	defer quiet.Stop()
	to.begun()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		quiet.Reset(c.quiet)
		var event struct {
			Type   string `json:"type"`
			Object item   `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return version, fmt.Errorf("cluster %s: %s: what answers is no API server: %w", c.cluster, attempt, err)
		}
		switch event.Type {
		case "ERROR":
			return version, c.broken(attempt, event.Object.raw)
		case "ADDED", "MODIFIED", "DELETED":
			if event.Object.name == "" {
				return version, fmt.Errorf("cluster %s: %s: what answers is no API server: an event is of an object without a name", c.cluster, attempt)
			}
		case "BOOKMARK":
		default:
			return version, fmt.Errorf("cluster %s: %s: what answers is no API server: it tells of an event of no known type", c.cluster, attempt)
		}
		if event.Object.version != "" {
			version = event.Object.version
		}
		if event.Type == "BOOKMARK" || !to.wants(event.Object.name) {
			continue
		}
		live, err := event.Object.live()
		if err != nil {
			return version, fmt.Errorf("cluster %s: %s: %w", c.cluster, attempt, err)
		}
		if event.Type == "DELETED" {
			live = nil
		}
		to.changed(event.Object.name, live)
	}
	if err := lines.Err(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return version, fmt.Errorf("cluster %s: %s: %w", c.cluster, attempt, err)
	}
	return version, nil
}

// broken is the error with which a server ends a watch.
func (c *client) broken(attempt string, raw []byte) error {
	var status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &status) == nil && status.Code == http.StatusGone {
		return errExpired
	}
	return fmt.Errorf("cluster %s: %s: %s", c.cluster, attempt, status.Message)
}

// get asks for a document.
func (c *client) get(ctx context.Context, attempt, at string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	defer cancel()
	body, err := c.request(ctx, attempt, at, query)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(body, mostAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("cluster %s: %s: %w", c.cluster, attempt, err)
	case len(text) > mostAnswer:
		return fmt.Errorf("cluster %s: %s: the answer has more than %d bytes", c.cluster, attempt, mostAnswer)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("cluster %s: %s: what answers is no API server: %w", c.cluster, attempt, err)
	}
	return nil
}

// request returns the body of an answer, which is to be closed.
func (c *client) request(ctx context.Context, attempt, at string, query url.Values) (io.ReadCloser, error) {
	to := *c.base
	to.Path, to.RawQuery = path.Join("/", to.Path, at), query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %s: %w", c.cluster, attempt, err)
	}
	r.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			err = cause
		}
		var request *url.Error
		if errors.As(err, &request) { // its text repeats the URL
			err = request.Err
		}
		return nil, fmt.Errorf("cluster %s does not answer: %s: %w", c.cluster, attempt, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	return nil, c.refusal(attempt, answer)
}
