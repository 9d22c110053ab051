package vars

func Merge(below, above any) any { return merge(below, above) }

// Clone returns a deep copy.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			out[key] = Clone(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = Clone(item)
		}
		return out
	default:
		return v
	}
}
