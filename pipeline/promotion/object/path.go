package object

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// CheckPath refuses what is no JSONPath of one value, such as {.status.lastAppliedRevision}.
func CheckPath(path string) error {
	_, err := parsePath(path)
	return err
}

// splitReady divides what says whether an object is well into a path and the value that it has
// then; "" is true.
func splitReady(text string) (path, value string) {
	end := strings.LastIndex(text, "}")
	if !strings.HasPrefix(text, "{") || end < 0 {
		return text, ""
	}
	path, value = text[:end+1], text[end+1:]
	if wanted, has := strings.CutPrefix(value, "="); has {
		return path, wanted
	}
	return text, ""
}

// CheckReady refuses what is neither a JSONPath nor one with =VALUE after it.
func CheckReady(text string) error {
	path, _ := splitReady(text)
	return CheckPath(path)
}

func parsePath(path string) (*jsonpath.JSONPath, error) {
	if !strings.HasPrefix(path, "{") {
		path = "{" + path + "}"
	}
	parsed, err := jsonpath.Parse("path", path)
	if err != nil {
		return nil, fmt.Errorf("%s is no JSONPath, such as {.status.lastAppliedRevision}: %w", path, err)
	}
	if len(parsed.Root.Nodes) != 1 || parsed.Root.Nodes[0].Type() != jsonpath.NodeList {
		return nil, errors.New("it must be one JSONPath in braces, with nothing before or after it")
	}
	if err := checkNode(parsed.Root); err != nil {
		return nil, err
	}
	finder := jsonpath.New("path").AllowMissingKeys(true)
	if err := finder.Parse(path); err != nil {
		return nil, fmt.Errorf("%s is no JSONPath: %w", path, err)
	}
	return finder, nil
}

// checkNode refuses what could visit the values of a deep object again and again, and what is for
// printing only.
func checkNode(node jsonpath.Node) error {
	switch node := node.(type) {
	case *jsonpath.ListNode:
		for _, n := range node.Nodes {
			if err := checkNode(n); err != nil {
				return err
			}
		}
	case *jsonpath.UnionNode: // one after the other they would lead to 2, 4, 8… values before anything counts them
		return errors.New("it must lead to one value: it cannot name several, divided by commas")
	case *jsonpath.FilterNode:
		if err := checkNode(node.Left); err != nil {
			return err
		}
		return checkNode(node.Right)
	case *jsonpath.RecursiveNode:
		return errors.New("it must say without .. where the value is")
	case *jsonpath.IdentifierNode:
		return fmt.Errorf("%s is for templates; the path is that of one value", node.Name)
	}
	return nil
}

// fields returns the names with which a path begins, up to what is no name, such as an index.
func fields(path string) (names []string) {
	if !strings.HasPrefix(path, "{") {
		path = "{" + path + "}"
	}
	parsed, err := jsonpath.Parse("path", path)
	if err != nil || len(parsed.Root.Nodes) == 0 {
		return nil
	}
	list, _ := parsed.Root.Nodes[0].(*jsonpath.ListNode)
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		field, is := node.(*jsonpath.FieldNode)
		if !is {
			break
		}
		names = append(names, field.Value)
	}
	return names
}

// errNothing is that a path leads to nothing.
var errNothing = errors.New("nothing is there")

// find returns the one value to which a path leads.
func find(path string, live map[string]any) (value any, err error) {
	finder, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	defer func() { // objects and paths are of others, and what evaluates them is made for printing
		if problem := recover(); problem != nil {
			value, err = nil, fmt.Errorf("%s cannot be evaluated: %v", path, problem)
		}
	}()
	results, err := finder.FindResults(live)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be evaluated: %w", path, err)
	}
	var found []reflect.Value
	for _, list := range results {
		found = append(found, list...)
	}
	switch {
	case len(found) == 0, len(found) == 1 && !found[0].IsValid():
		return nil, errNothing
	case len(found) > 1:
		return nil, fmt.Errorf("%s leads to %d values, and must lead to one", path, len(found))
	case !found[0].CanInterface():
		return nil, fmt.Errorf("%s leads to nothing that can be read", path)
	}
	if value = found[0].Interface(); value == nil {
		return nil, errNothing
	}
	return value, nil
}
