package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Several are types that are one program, and so one image: what it is asked says, by its
// "type", which of them is meant. A process that serves answers for all of them. The key is
// the last element of that name, without a tag or digest: the image may be copied to a
// registry elsewhere.
//
//	protocol.Several{"network": networks, "volume": volumes}.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
type Several map[string]program

// Run does what Type.Run does, for whichever type is asked.
func (s Several) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	return runProgram(ctx, s, args, stdin, stdout, stderr)
}

func (s Several) invoke(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	input, t, err := s.asked(stdin)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "error:", oneLine(err.Error()))
		return 1
	}
	return t.invoke(ctx, args, bytes.NewReader(input), stdout, stderr)
}

// asked returns an input, and the type that it is for.
func (s Several) asked(stdin io.Reader) ([]byte, program, error) {
	input, err := io.ReadAll(io.LimitReader(stdin, MaxRequest+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the request on stdin: %w", err)
	}
	if len(input) > MaxRequest {
		return nil, nil, fmt.Errorf("the request on stdin has more than %d bytes", MaxRequest)
	}
	var of struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(input, &of); err != nil {
		return nil, nil, fmt.Errorf("reading the request on stdin, which must be a JSON object: %w", err)
	}
	t, ok := s[baseName(of.Type)]
	if !ok {
		return nil, nil, fmt.Errorf(`"type" is %q, and this image has %s: the name of the image must end with one of them`, of.Type, strings.Join(slices.Sorted(maps.Keys(s)), ", "))
	}
	return input, t, nil
}

// baseName is the last element of the name of an image, without its tag or digest.
func baseName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndexByte(image, '/')+1:]
	image, _, _ = strings.Cut(image, ":")
	return image
}
