// Package webhook posts what is signed: who receives it knows who sent it, when, and that it is
// whole, and knows by its id what it was sent before. The form is that of Standard Webhooks.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// mostAnswer is how many bytes of an answer are read.
const mostAnswer = 64 << 10

// client follows no redirects, which would lead what is signed elsewhere, and keeps no
// connections: what is posted is rare.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Answer is what a receiver said.
type Answer struct {
	Status int
	Body   string // its beginning
}

// Post posts a JSON document; key is the text of the key that signs it, "" signs nothing. It
// fails where the answer is not of success, with the answer, and with the cause of ctx where that ends.
func Post(ctx context.Context, to, key, id string, now time.Time, body []byte) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return Answer{}, errors.New("the URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "deployster")
	if key != "" {
		if err := sign(request.Header, key, id, now, body); err != nil {
			return Answer{}, err
		}
	}
	response, err := client.Do(request)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) { // which holds the URL, and that may be a secret
			err = of.Err
		}
		return Answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // the answer counts
	text, _ := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	answer := Answer{Status: response.StatusCode, Body: string(text)}
	if answer.Status < 200 || answer.Status > 299 {
		return answer, fmt.Errorf("the answer was %d", answer.Status)
	}
	return answer, nil
}

// CheckKey says what is wrong with the text of a key; nil is nothing. It tells nothing of it.
func CheckKey(key string) error {
	_, err := secret(key)
	return err
}

func secret(key string) ([]byte, error) {
	const least = 24 // bytes
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	if err != nil || len(secret) < least {
		return nil, fmt.Errorf("a key must be at least %d bytes in base64, as openssl rand -base64 32 makes it", least)
	}
	return secret, nil
}

// sign adds the headers that say who sends a body, and when: HMAC-SHA256 with the key over id,
// time and body.
func sign(to http.Header, key, id string, now time.Time, body []byte) error {
	secret, err := secret(key)
	if err != nil {
		return err
	}
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	to.Set("Webhook-Id", id)
	to.Set("Webhook-Timestamp", at)
	to.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}
