package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/webhook"
)

const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// What is posted is known by the library of others to be signed, with its id and time, and only an
// answer of success is one.
func TestWhatIsPostedIsSigned(t *testing.T) {
	verifier := must.Get(standardwebhooks.NewWebhook(key))(t)
	status, got := http.StatusAccepted, error(nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = verifier.Verify(body, r.Header)
		assert.True(t, r.Method == http.MethodPost && string(body) == `{"a":1}`, "%s %s %v", r.Method, body, r.Header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "job 7")
	}))
	defer server.Close()
	for _, tc := range []struct {
		status int
		key    string
		signed bool
	}{{202, key, true}, {204, "", false}, {200, "whsec_" + strings.Repeat("QUJD", 10), false}, {301, key, true}, {400, key, true}, {503, key, true}} {
		status = tc.status
		answer, err := webhook.Post(t.Context(), server.URL, tc.key, "x1", time.Now(), []byte(`{"a":1}`))
		if answer.Status != tc.status || (err == nil) != (tc.status < 300) || tc.status != 204 && answer.Body != "job 7" {
			t.Errorf("%d: %+v, %v", tc.status, answer, err)
		}
		assert.Equal(t, tc.signed, (got == nil), "signed with %q: %v", tc.key, got)
	}
}

// What is signed goes where it was sent, whoever answers that it is to go elsewhere, and an error
// does not tell the URL, which may be a secret.
func TestWhatIsPostedGoesNowhereElse(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		_, err := webhook.Post(t.Context(), server.URL, key, "x1", time.Now(), nil)
		assert.True(t, err != nil && elsewhere <= 0, "%d: %v, followed %d times", status, err, elsewhere)
		server.Close()
		_, err = webhook.Post(t.Context(), server.URL+"/s3cret", key, "x1", time.Now(), nil)
		assert.True(t, err != nil && !strings.Contains(err.Error(), "s3cret"), "nobody is there: %v", err)
	}
	_, err := webhook.Post(t.Context(), "http://s3cret.example:port", key, "x1", time.Now(), nil)
	assert.True(t, err != nil && !strings.Contains(err.Error(), "s3cret"), "a URL that is none: %v", err)
}

func TestAReceiverThatDoesNotAnswerIsLeft(t *testing.T) {
	late := errors.New("no answer within 15s")
	ctx, cancel := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(late)
		<-r.Context().Done()
	}))
	defer server.Close()
	assert.ErrorIs(t, must.Fail(webhook.Post(ctx, server.URL, key, "x1", time.Now(), nil)), late)
	over, cancelOver := context.WithTimeoutCause(t.Context(), time.Millisecond, late)
	defer cancelOver()
	assert.ErrorIs(t, must.Fail(webhook.Post(over, server.URL, key, "x1", time.Now(), nil)), late)
}

func TestAKeyHasAForm(t *testing.T) {
	for text, good := range map[string]bool{key: true, strings.TrimPrefix(key, "whsec_"): true, "": false, "whsec_": false, "whsec_c2hvcnQ=": false, "no base64!": false} {
		err := webhook.CheckKey(text)
		assert.True(t, (err == nil) == good && (err == nil || !strings.Contains(err.Error(), "c2hv")), "%q: %v", text, err)
	}
}
