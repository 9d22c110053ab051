package terraform

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// checkPlan refuses a plan that changes what was configured, which a correct provider
// never does.
func checkPlan(b tfplugin.Block, prior, config, planned cty.Value) error {
	if planned.IsNull() || !planned.IsKnown() {
		return fmt.Errorf("the provider planned to have nothing, which is an error in the provider")
	}
	for _, a := range b.Attributes {
		given, wanted := config.GetAttr(a.Name), planned.GetAttr(a.Name)
		if a.WriteOnly || a.Nested != nil || a.Computed && given.IsNull() {
			continue
		}
		// What means the same as what there is may stay as it is.
		if !wanted.RawEquals(given) && !wanted.RawEquals(member(prior, a.Name, a.Type)) {
			return fmt.Errorf("%s: the provider planned another value than is configured, which is an error in the provider", a.Name)
		}
	}
	return nil
}

// checkApplied refuses a state that is not what was planned.
func checkApplied(planned, actual cty.Value) error {
	if planned.IsNull() {
		if !actual.IsNull() {
			return fmt.Errorf("the provider answered that the removed resource is still there, which is an error in the provider")
		}
		return nil
	}
	if actual.IsNull() {
		return fmt.Errorf("the provider answered that there is nothing, which is an error in the provider")
	}
	var problem error
	differ(planned, actual, nil, func(path cty.Path, planned, actual cty.Value) {
		if problem == nil && !fulfils(planned, actual) {
			problem = fmt.Errorf("%s: the provider made something else than it planned, which is an error in the provider", tfplugin.PathText(path))
		}
	})
	return problem
}

// fulfils reports whether a value can be what was planned.
func fulfils(planned, actual cty.Value) bool {
	switch t := planned.Type(); {
	case !planned.IsKnown():
		return true
	case planned.IsNull() || actual.IsNull():
		return planned.IsNull() == actual.IsNull()
	case t.IsSetType():
		// An element that was not known in whole may have become any.
		return !planned.IsWhollyKnown() || planned.RawEquals(actual)
	case t.IsListType() || t.IsTupleType() || t.IsMapType() || t.IsObjectType():
		return false // it has other parts
	default:
		return planned.RawEquals(actual)
	}
}

// known is a state without what is not known in it, and whether there was such.
func known(state cty.Value) (_ cty.Value, all bool) {
	if state.IsWhollyKnown() {
		return state, true
	}
	state, err := cty.Transform(state, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.NullVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		return cty.NullVal(state.Type()), false
	}
	return state, false
}
