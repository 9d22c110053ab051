package kubeapi

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/internal/pattern"
)

// explain adds to an error of the server what was attempted, and what to do.
func (c *Client) explain(action string, err error) error {
	where := fmt.Sprintf("cluster at %s: %s", c.Server, action)
	var request *url.Error
	var network net.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: it does not know who asks: %w; check the credentials in the kubeconfig, such as with `kubectl auth whoami`: tokens expire", where, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w%s", where, err, missing(err))
	case errors.As(err, &request), errors.As(err, &network):
		if request != nil {
			err = request.Err
		}
		if isLocal(c.Server) {
			return fmt.Errorf("%s: %w; within a container that address is the container itself: name another one in the kubeconfig, or run with --network host", where, err)
		}
		return fmt.Errorf("%s: %w; check with `kubectl version` that it can be reached", where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// denied finds the right that is missing in what the server says.
var denied = pattern.Lazy(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"( at the cluster scope| in the namespace "([^"]+)")?`)

// missing says which right is to be granted.
func missing(err error) string {
	found := denied().FindStringSubmatch(err.Error())
	if found == nil {
		return "" // an admission controller or a quota, which says so itself
	}
	resource := strings.TrimSuffix(found[2]+"."+found[3], ".")
	where := "by a ClusterRole"
	if found[5] != "" && found[2] != "namespaces" { // of a namespace the server says that it is in itself
		where = "in namespace " + found[5]
	}
	return fmt.Sprintf("; grant the verb %s on %s %s", found[1], resource, where)
}

// IsForbidden reports whether a right is missing.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// Conflict is a field that another manager owns.
type Conflict struct {
	Manager string
	Field   string // as in .spec.template.spec.containers[name="web"].image
}

var byManager = pattern.Lazy(`conflict with "((?:[^"\\]|\\.)*)"`)

// Conflicts are the fields for which an apply was refused since others own them; none where that
// is not why.
func Conflicts(err error) []Conflict {
	var found []Conflict
	for _, cause := range causes(err) {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		c := Conflict{Manager: "another manager", Field: cause.Field}
		if m := byManager().FindStringSubmatch(cause.Message); m != nil {
			c.Manager = m[1]
		}
		found = append(found, c)
	}
	return found
}

// Invalid are the fields of an object that the server refused; none where that is not why.
func Invalid(err error) []string {
	if !apierrors.IsInvalid(err) {
		return nil
	}
	var fields []string
	for _, cause := range causes(err) {
		if !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// IsNotFound reports whether an API server said that something is not there: any other server
// answers 404, too.
func IsNotFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// IsConflict reports whether an object was another one, or of another version, than the one that was meant.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// IsEnding reports whether an object was refused since its namespace is being deleted.
func IsEnding(err error) bool { return apierrors.HasStatusCause(err, "NamespaceTerminating") }

// Passing reports whether a request may succeed when it is made again: the server is being
// started anew, or has too much to do.
func Passing(err error) bool {
	var network net.Error
	return errors.As(err, &network) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}
