package trimtab

// appendRead appends a JSON value without the fields that planners do not read, and returns what follows the value.
// text : as json.Marshal writes it.
func appendRead(out, text []byte, read *fields) (longer, rest []byte) {
	if read == nil || (text[0] != '{' && text[0] != '[') {
		end := endOf(text)
		return append(out, text[:end]...), text[end:]
	}
	isMap, isFirst := text[0] == '{', true
	out, text = append(out, text[0]), text[1:]
	for text[0] != '}' && text[0] != ']' {
		if text[0] == ',' {
			text = text[1:]
		}
		inner, isRead, begin := read, true, len(out)
		if !isFirst {
			out = append(out, ',')
		}
		if isMap {
			end := endOf(text)
			inner, isRead = read.of(string(text[1 : end-1]))
			out, text = append(out, text[:end+1]...), text[end+1:]
		}
		if !isRead {
			out, text = out[:begin], text[endOf(text):]
			continue
		}
		out, text = appendRead(out, text, inner)
		isFirst = false
	}
	return append(out, text[0]), text[1:]
}

// endOf returns where the value ends that a text begins with.
func endOf(text []byte) int {
	for at, depth, isText := 0, 0, false; ; at++ {
		switch one := text[at]; {
		case isText && one == '\\':
			at++
		case one == '"':
			if isText = !isText; !isText && depth == 0 {
				return at + 1
			}
		case isText:
		case one == '{' || one == '[':
			depth++
		case one == '}' || one == ']':
			if depth--; depth == 0 {
				return at + 1
			} else if depth < 0 {
				return at
			}
		case depth == 0 && one == ',':
			return at
		}
	}
}
