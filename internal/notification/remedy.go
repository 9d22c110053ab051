package notification

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// explain adds what to do to the error of a receiver, where that is to be known.
func explain(err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("%w; this machine does not trust who signed its certificate: start the server with SSL_CERT_FILE naming a file of that authority in PEM", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w; write the name that its certificate is for", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w; who runs it has to renew its certificate", err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%w; it does not speak TLS there: check the port", err)
	default:
		return err
	}
}

// explainMail does so for a mail server.
func explainMail(err error) error {
	// The library has no error of its own for that.
	if strings.Contains(err.Error(), "does not support STARTTLS") {
		return errors.New("it does not offer STARTTLS, so that others could read the mail: give its port that does, often 587, or 465 for TLS from the beginning; plain: true sends it all the same")
	}
	return explain(err)
}
