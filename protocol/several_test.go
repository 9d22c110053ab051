package protocol

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// houses is an image of two types, which are told apart by the name of what is asked.
func houses() (both Several, lit, warm *string) {
	lit, warm = new(string), new(string)
	return Several{"lamp": lamp(lit), "oven": lamp(warm)}, lit, warm
}

// Every type of an image is asked by its own name, wherever the image was copied to, one at a
// time or all in one process.
func TestSeveralTypesAreOneProgram(t *testing.T) {
	both, lit, warm := houses()
	for typ, painted := range map[string]*string{"deployster/lamp": lit, "registry.example:5000/copied/oven:1.2": warm, "lamp@sha256:0123": lit} {
		input := `{"name": "r", "type": "` + typ + `", "config": {"colour": "red of ` + typ + `"}}`
		var out, errs bytes.Buffer
		if code := both.Run(t.Context(), []string{"paint"}, strings.NewReader(input), &out, &errs); code != 0 || *painted != "red of "+typ {
			t.Errorf("%s: exit code %d, %q was painted: %s", typ, code, *painted, errs.String())
		}
	}
	var asked bytes.Buffer
	for i, typ := range []string{"deployster/oven", "deployster/lamp"} {
		line, err := json.Marshal(ServeRequest{ID: int64(i + 1), Action: "paint", Args: []string{"paint"}, Input: StateInput{InitInput: InitInput{Type: typ}, Config: map[string]any{"colour": typ}}})
		if err != nil {
			t.Fatal(err)
		}
		asked.Write(append(line, '\n'))
	}
	var out, errs bytes.Buffer
	if code := both.Run(t.Context(), []string{"serve"}, &asked, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if *lit != "deployster/lamp" || *warm != "deployster/oven" {
		t.Errorf("the lamp is %q, the oven %q: a request went to another type", *lit, *warm)
	}
}

// What none of the types is asked does nothing, and says which there are.
func TestSeveralTypesAndNoneIsMeant(t *testing.T) {
	for input, want := range map[string]string{
		`{"type": "acme/stove:1", "config": {}}`: `"type" is "acme/stove:1", and this image has lamp, oven: the name of the image must end with one of them`,
		`{"config": {}}`:                         `"type" is "", and this image has lamp, oven`,
		`{"type": "lamp/"}`:                      `"type" is "lamp/"`,
		`{"type": 7}`:                            `must be a JSON object`,
		`[]`:                                     `must be a JSON object`,
		``:                                       `must be a JSON object`,
	} {
		both, lit, warm := houses()
		var out, errs bytes.Buffer
		if code := both.Run(t.Context(), []string{"paint"}, strings.NewReader(input), &out, &errs); code != 1 || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q; want %s", input, code, out.String(), errs.String(), want)
		}
		if *lit+*warm != "" {
			t.Errorf("%s: something was painted", input)
		}
	}
	both, _, _ := houses()
	var out, errs bytes.Buffer
	endless := io.MultiReader(strings.NewReader(`{"type": "`), bytes.NewReader(bytes.Repeat([]byte("x"), MaxRequest)))
	if code := both.Run(t.Context(), []string{"state"}, endless, &out, &errs); code != 1 || !strings.Contains(errs.String(), "has more than") {
		t.Errorf("exit code %d: %.200s", code, errs.String())
	}
}
