package protocol

import "encoding/json"

// MarshalJSON writes the members that belong to the status, also when they are
// empty: a VALID answer always has a state.
func (o StateOutput) MarshalJSON() ([]byte, error) {
	if o.Status == Valid {
		return json.Marshal(struct {
			Status Status         `json:"status"`
			State  map[string]any `json:"state"`
		}{o.Status, o.State})
	}
	type plain StateOutput // without this method
	if o.StaleState == nil {
		return json.Marshal(plain(o))
	}
	return json.Marshal(struct {
		plain
		StaleState map[string]any `json:"staleState"`
	}{plain(o), o.StaleState})
}

// UnmarshalJSON supplies the defaults of the members that are absent.
func (p *PlugRequest) UnmarshalJSON(data []byte) error {
	type plain PlugRequest // without this method
	request := plain{Writable: true}
	if err := json.Unmarshal(data, &request); err != nil {
		return err
	}
	*p = PlugRequest(request)
	return nil
}
