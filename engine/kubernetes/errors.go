package kubernetes

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/pattern"
)

// wrap adds to an error of the API server what was attempted, and what to do.
func (c *Cluster) wrap(action string, err error) error {
	where := fmt.Sprintf("cluster at %s", c.config.Host)
	var request *url.Error
	var network net.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %s: %s: it does not know who asks: %w; check the credentials of the context, such as with `kubectl auth whoami`", engine.ErrUnavailable, where, action, err)
	case apierrors.IsForbidden(err), denied(err):
		return fmt.Errorf("%s: %s: %w%s", where, action, err, c.missing(err))
	case errors.As(err, &request), errors.As(err, &network):
		if request != nil {
			err = request.Err
		}
		return fmt.Errorf("%w: %s: %s: %w; check with `kubectl version` that it can be reached", engine.ErrUnavailable, where, action, err)
	}
	return fmt.Errorf("%s: %s: %w", where, action, err)
}

// cannot finds the right that is missing in what the API server says.
var cannot = pattern.Lazy(`cannot (\w+) resource "([^"]+)"`)

// denied reports whether a right is missing. What answers an attachment need not be a status.
func denied(err error) bool { return cannot().MatchString(err.Error()) }

// missing says which right is to be granted.
func (c *Cluster) missing(err error) string {
	found := cannot().FindStringSubmatch(err.Error())
	if found == nil {
		return c.quota(err)
	}
	return fmt.Sprintf("; grant the verb %s on %s in namespace %s: docs/kubernetes.md has a Role with all that is needed", found[1], found[2], c.options.Namespace)
}

// quota says what to do where a ResourceQuota refuses a Pod, "" where it is something else that says itself what.
func (c *Cluster) quota(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "failed quota: ") && strings.Contains(text, "must specify"):
		return fmt.Sprintf("; make a LimitRange in namespace %s, with which its quota counts what containers do not say: docs/kubernetes.md has one; for memory alone --memory is enough", c.options.Namespace)
	case strings.Contains(text, "exceeded quota"):
		return fmt.Sprintf("; wait until other Pods there have ended, name less --memory where that is exceeded, or have the quota raised: `kubectl describe quota --namespace %s` shows what is used", c.options.Namespace)
	}
	return ""
}

// passing reports whether a request may succeed when it is made again.
func passing(err error) bool {
	if refusedCertificate(err) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "EOF") ||
		strings.Contains(err.Error(), "unexpected error when reading response body") // as client-go says it
}

// refusedCertificate reports whether one of the two sides does not accept the certificate of the other.
func refusedCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var connection *net.OpError
	return errors.As(err, &verification) ||
		errors.As(err, &connection) && connection.Op == "remote error" && strings.Contains(err.Error(), "certificate") // as crypto/tls says it
}

// maybeDone reports whether what a request asked for may have been done, although it failed: it was
// sent, and the answer is lost or does not say.
func maybeDone(err error) bool {
	var answer apierrors.APIStatus
	var connection *net.OpError
	switch {
	case apierrors.IsAlreadyExists(err): // the name is our own: a first request was answered by what is in between
		return true
	case errors.As(err, &answer):
		return answer.Status().Code >= http.StatusInternalServerError
	case errors.As(err, &connection) && (connection.Op == "dial" || connection.Op == "proxyconnect"), refusedCertificate(err):
		return false
	case strings.Contains(err.Error(), "getting credentials: "): // as client-go says it
		return false
	}
	return true
}
