package pages_test

import (
	"reflect"

	"github.com/deployster-go/deployster/deploylog"
)

// lengths are those of all maps and lists that something has, by where these are: those in
// elements of the same map or list are added up. The log is not looked at.
func lengths(of any) map[string]int {
	w := walk{sum: map[string]int{}, seen: map[uintptr]bool{}}
	w.value("", reflect.ValueOf(of))
	return w.sum
}

type walk struct {
	sum  map[string]int
	seen map[uintptr]bool
}

var theLog = reflect.TypeFor[deploylog.Log]()

func (w walk) value(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type().Implements(theLog) || w.seen[v.Pointer()] {
			return
		}
		w.seen[v.Pointer()] = true
		w.value(path, v.Elem())
	case reflect.Interface:
		if !v.IsNil() && !v.Elem().Type().Implements(theLog) {
			w.value(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			w.value(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Map:
		w.sum[path] += v.Len()
		for each := v.MapRange(); each.Next(); {
			w.value(path+"[]", each.Value())
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			w.sum[path] += v.Len()
		}
		if elem := v.Type().Elem().Kind(); elem < reflect.Array || elem == reflect.String {
			return
		}
		for i := range v.Len() {
			w.value(path+"[]", v.Index(i))
		}
	case reflect.Chan:
		w.sum[path] += v.Len()
	default:
	}
}
