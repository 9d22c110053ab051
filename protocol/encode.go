package protocol

import "encoding/json"

// MarshalJSON writes the members that belong to the status, also when they are
// empty: a VALID answer always has a state.
func (o StateOutput) MarshalJSON() ([]byte, error) {
	type plain StateOutput // without this method
	if o.Status == Valid {
		return json.Marshal(struct {
			Status Status         `json:"status"`
			State  map[string]any `json:"state"`
			plain
		}{o.Status, o.State, plain(o)})
	}
	return json.Marshal(struct {
		plain
		StaleState   map[string]any `json:"staleState,omitzero"`
		PlannedState map[string]any `json:"planned_state,omitzero"`
	}{plain(o), o.StaleState, o.PlannedState})
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
