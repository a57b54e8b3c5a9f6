package trimtab

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a claim or a class can read of devices decides which attributes a
// snapshot has: others, such as a uuid, are left out, so that devices which no
// claim can tell apart are equal. It is decided on the texts alone, and on the
// safe side.

const quotedText = `(?:"[^"\\]*"|'[^'\\]*')`

var (
	// readsByID is `device.attributes["domain"].id`, also with an index or an
	// optional field.
	readsByID = regexp.MustCompile(`attributes\s*\[\s*` + quotedText + `\s*\]\s*` +
		`(?:\.\s*\??\s*[\pL_][\pL\pN_]*|\[\s*\??\s*` + quotedText + `\s*\])`)
	// asksForID is `"id" in device.attributes["domain"]`.
	asksForID = regexp.MustCompile(quotedText + `\s*in\s+[\pL_][\pL\pN_]*\s*\.\s*attributes\s*\[\s*` + quotedText + `\s*\]`)
	readsAny  = regexp.MustCompile(`\battributes\b`)
)

// readsAnyAttribute says whether an expression may read attributes whose ids it
// does not spell out. A function of the map reads all of it.
func readsAnyAttribute(expression string) bool {
	if strings.Contains(expression, `\`) {
		return true
	}
	left := without(expression, asksForID, func(_, rest string) bool {
		return !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "[")
	})
	left = without(left, readsByID, func(match, rest string) bool {
		return strings.HasSuffix(match, "]") || !strings.HasPrefix(rest, "(")
	})
	return readsAny.MatchString(left)
}

// without puts a space for each match that is allowed with what comes after it,
// but for spaces.
func without(text string, form *regexp.Regexp, allows func(match, rest string) bool) string {
	var out strings.Builder
	for text != "" {
		found := form.FindStringIndex(text)
		if found == nil {
			break
		}
		if allows(text[found[0]:found[1]], strings.TrimLeftFunc(text[found[1]:], unicode.IsSpace)) {
			out.WriteString(text[:found[0]] + " ")
			text = text[found[1]:]
			continue
		}
		_, size := utf8.DecodeRuneInString(text[found[0]:])
		out.WriteString(text[:found[0]+size])
		text = text[found[0]+size:]
	}
	return out.String() + text
}

// attributeFilter returns the function that tells whether an attribute, by its
// name, is read; nil = all are. names : attributes of constraints.
func attributeFilter(expressions, names map[string]bool) func(string) bool {
	texts := sortedKeys(expressions)
	if slices.ContainsFunc(texts, readsAnyAttribute) {
		return nil
	}
	joined := strings.Join(append(texts, sortedKeys(names)...), "\n")
	known := map[string]bool{}
	return func(name string) bool {
		isRead, isKnown := known[name]
		if !isKnown {
			isRead = strings.Contains(joined, name[strings.LastIndex(name, "/")+1:])
			known[name] = isRead
		}
		return isRead
	}
}
