package packages

import (
	"encoding/json"
	"fmt"

	"github.com/deployster-go/deployster/build"
)

// Carried is a group as a revision carries it: what is to be submitted when the stage begins,
// with all that the group is to carry itself.
type Carried struct {
	Version int               `json:"version"`
	Submit  build.Submit      `json:"submit"`
	Files   map[string]string `json:"files"` // texts
}

const carriedVersion = 1

// Encode writes it.
func (c Carried) Encode() ([]byte, error) {
	c.Version = carriedVersion
	return json.Marshal(c)
}

// Decode reads what Encode wrote.
func Decode(text []byte) (c Carried, err error) {
	err = json.Unmarshal(text, &c)
	if err == nil && c.Version > carriedVersion {
		err = fmt.Errorf("it has the form %d, which this version does not know: use a newer one", c.Version)
	}
	if err != nil {
		return Carried{}, fmt.Errorf("the build group that the revision carries: %w", err)
	}
	return c, nil
}
