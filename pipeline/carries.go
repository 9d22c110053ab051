package pipeline

// Files are the SHA-256 of files, in hexadecimal, by their paths below the workspace:
// manifests, and all that these include.
type Files map[string]string

// bring lets the deployments under way have the files of a definition that has just
// become the current one: for manifests that none of them carries, since they were not in
// the pipeline when the revision was released. Once it has them, it keeps them, so that
// all hosts get the same.
func (s *State) bring(carries Files) {
	if len(carries) == 0 {
		return
	}
	for _, d := range s.deployments {
		if d.carries == nil {
			continue
		}
		s.definition.Manifests(func(_ string, path *string) {
			_, given := carries[*path]
			if given && d.files(*path) == nil {
				if d.brought == nil {
					d.brought = map[string]Files{}
				}
				d.brought[*path] = carries
			}
		})
	}
}

// files are those with which a manifest is applied; nil are the present ones of the
// workspace.
func (d *deployment) files(manifest string) Files {
	if _, carried := d.carries[manifest]; carried {
		return d.carries
	}
	return d.brought[manifest]
}
