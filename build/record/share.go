package record

// Share has specs of jobs share their memory, as far as they are equal or parts of lists: there
// are many, through which the collector of garbage goes.
func (j *Jobs) Share() {
	texts := sharedTexts{}
	uses, waits := 0, 0
	for i := range j.Jobs {
		uses, waits = uses+len(j.Jobs[i].Uses), waits+len(j.Jobs[i].Waits)
	}
	allUses, allWaits := make([]Use, 0, uses), make(Numbers, 0, waits)
	for i := range j.Jobs {
		spec := &j.Jobs[i]
		texts.share(&spec.Package)
		texts.share(&spec.Version)
		if n := len(spec.Uses); n > 0 {
			allUses = append(allUses, spec.Uses...)
			spec.Uses = allUses[len(allUses)-n : len(allUses) : len(allUses)]
		}
		if n := len(spec.Waits); n > 0 {
			allWaits = append(allWaits, spec.Waits...)
			spec.Waits = allWaits[len(allWaits)-n : len(allWaits) : len(allWaits)]
		}
		for k := range spec.Uses {
			texts.share(&spec.Uses[k].Package)
			texts.share(&spec.Uses[k].Artifact)
		}
	}
}

// sharedTexts are texts of which each is kept once.
type sharedTexts map[string]string

func (t sharedTexts) share(text *string) {
	if *text == "" {
		return
	}
	if one, known := t[*text]; known {
		*text = one
	} else {
		t[*text] = *text
	}
}
