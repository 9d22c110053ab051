package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Send is what of a saved plan only that server knows which planned: what it is keyed with, where
// it was made, and what it says of the resources. Who asked for the plan completes and saves it.
func Send(f *File) ([]byte, error) {
	text, err := json.Marshal(f.document())
	if err != nil {
		return nil, fmt.Errorf("sending the plan to be saved: %w", err)
	}
	return text, nil
}

// Sent is the plan that Send has made a text of. It is checked when it is encoded.
func Sent(text []byte) (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var d document
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("reading a plan that was sent to be saved: %w", err)
	}
	return d.file(), nil
}
