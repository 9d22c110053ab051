package schema

import "strings"

// keywords are those of all drafts that are understood. A schema may hold others, which
// nothing looks at.
const keywords = `type enum const title description default examples deprecated readOnly writeOnly format pattern minLength maxLength
minimum exclusiveMinimum maximum exclusiveMaximum multipleOf items prefixItems additionalItems unevaluatedItems contains minContains
maxContains minItems maxItems uniqueItems properties patternProperties additionalProperties unevaluatedProperties propertyNames
required dependentRequired dependentSchemas dependencies minProperties maxProperties allOf anyOf oneOf not if then else
contentEncoding contentMediaType contentSchema definitions id $defs $ref $id $schema $anchor $comment $vocabulary $dynamicRef
$dynamicAnchor $recursiveRef $recursiveAnchor`

// Keywords are the words with a meaning in a schema, so that a mistyped one can be told.
func Keywords() []string { return strings.Fields(keywords) }
