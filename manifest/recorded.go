package manifest

// Recorded is a manifest of one resource that is in no file any more, with the plugs that it had.
// Its configuration is what it came to, and holds no expressions.
func Recorded(r *Resource, plugs []*Plug) *Manifest {
	m := &Manifest{Plugs: plugs, Resources: []*Resource{r}, plugs: map[string]*Plug{}, resources: map[string]*Resource{r.Name: r}}
	for _, p := range plugs {
		m.plugs[p.Name] = p
	}
	return m
}
