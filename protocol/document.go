package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of an answer. MaxAnswer is in bytes: a caller need not keep more
// of a container's stdout than one byte beyond it.
const (
	MaxAnswer = 8 << 20
	MaxDepth  = 128
)

// parseObject reads data as exactly one JSON object. Unlike encoding/json it
// refuses duplicate keys and invalid UTF-8. Numbers become int64 where they
// are written as integers and fit, float64 otherwise.
func parseObject(data []byte) (map[string]any, error) { return parseNested(data, 0) }

// parseNested is parseObject of what counts as so many levels deep.
func parseNested(data []byte, depth int) (map[string]any, error) {
	if len(data) > MaxAnswer {
		return nil, &AnswerError{Message: fmt.Sprintf("the answer is larger than %d bytes", MaxAnswer), Excerpt: excerpt(data[:excerptBytes])}
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, &AnswerError{Message: fmt.Sprintf("the answer is not valid UTF-8 at byte %d", at), Excerpt: excerpt(data[at:])}
	}
	text := bytes.TrimLeft(data, " \t\r\n")
	if len(text) == 0 {
		return nil, &AnswerError{Message: "stdout was empty; one JSON object was expected"}
	}
	if text[0] != '{' {
		return nil, notAnObject(text)
	}
	p := parser{dec: json.NewDecoder(bytes.NewReader(text)), text: text}
	p.dec.UseNumber()
	value, err := p.value("", depth)
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimLeft(text[p.dec.InputOffset():], " \t\r\n")
	if len(rest) > 0 {
		message := "there is text after the JSON document; exactly one JSON document was expected"
		if json.NewDecoder(bytes.NewReader(rest)).Decode(new(json.RawMessage)) == nil {
			message = "there are two JSON documents; exactly one was expected"
		}
		return nil, &AnswerError{Message: message, Excerpt: excerpt(rest)}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, notAnObject(text)
	}
	return object, nil
}

func notAnObject(text []byte) error {
	var value any
	message := "the answer is not JSON; one JSON object was expected"
	if json.Unmarshal(text, &value) == nil {
		message = fmt.Sprintf("the answer is %s; one JSON object was expected", kindOf(value))
	} else if bytes.IndexByte(text, '{') > 0 {
		message = "there is text before the JSON document; only the document belongs on stdout, everything for people on stderr"
	}
	return &AnswerError{Message: message, Excerpt: excerpt(text)}
}

// parser turns tokens into values, with the checks that encoding/json lacks.
type parser struct {
	dec  *json.Decoder
	text []byte
}

func (p *parser) token() (json.Token, error) {
	token, err := p.dec.Token()
	if err == nil {
		return token, nil
	}
	at := min(max(p.dec.InputOffset(), 0), int64(len(p.text)))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &AnswerError{Message: "the JSON document ends too early", Excerpt: excerpt(p.text)}
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end") {
		return nil, &AnswerError{Message: "the JSON document ends too early", Excerpt: excerpt(p.text)}
	}
	return nil, &AnswerError{Message: fmt.Sprintf("malformed JSON near byte %d: %v", at, err), Excerpt: excerpt(p.text[at:])}
}

func (p *parser) value(path string, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, &AnswerError{Message: fmt.Sprintf("the JSON document is nested more than %d levels deep", MaxDepth), Excerpt: excerpt(p.text)}
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(path, depth)
		}
		return p.array(path, depth)
	case json.Number:
		return p.number(path, t)
	default:
		return t, nil // string, bool or nil
	}
}

func (p *parser) object(path string, depth int) (any, error) {
	object := map[string]any{}
	for p.dec.More() {
		token, err := p.token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, &AnswerError{Message: "malformed JSON: an object's key must be a string", Path: path, Excerpt: excerpt(p.text)}
		}
		at := join(path, key)
		if _, twice := object[key]; twice {
			return nil, &AnswerError{Message: "duplicate key", Path: at, Excerpt: excerpt(p.text[p.dec.InputOffset():])}
		}
		if object[key], err = p.value(at, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := p.token()
	return object, err
}

func (p *parser) array(path string, depth int) (any, error) {
	array := []any{}
	for p.dec.More() {
		value, err := p.value(fmt.Sprintf("%s[%d]", path, len(array)), depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := p.token()
	return array, err
}

func (p *parser) number(path string, n json.Number) (any, error) {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, &AnswerError{Message: "the number is too large", Path: path, Excerpt: excerpt([]byte(n))}
	}
	return f, nil
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
