package pid1

// Codes of RFC 1035.
const (
	dnsHeader   = 12
	dnsNotImpl  = 4
	dnsNXDomain = 3
	dnsA        = 1
	dnsAAAA     = 28
)

// noSuchName is the answer to a question about a name when there is no network:
// that it does not exist, or, for localhost (RFC 6761), the loopback. It is
// appended to out; nil for what is no question.
func noSuchName(q, out []byte) []byte {
	if len(q) < dnsHeader || q[2]&0x80 != 0 { // an answer
		return nil
	}
	code := byte(dnsNXDomain)
	end := -1
	if q[2]&0x78 != 0 || q[4] != 0 || q[5] != 1 { // another operation, or not one question
		code = dnsNotImpl
	} else if end = dnsNameEnd(q); end < 0 || end+4 > len(q) {
		return nil
	}
	out = append(out, q[:dnsHeader]...)
	out[2] = 0x80 | q[2]&0x79 // an answer; the operation and "recursion desired" as asked
	out[3] = 0x80 | code      // recursion available
	for i := 4; i < dnsHeader; i++ {
		out[i] = 0
	}
	if end < 0 {
		return out
	}
	out[5] = 1
	out = append(out, q[dnsHeader:end+4]...)
	if !isLocalhost(q[dnsHeader:end]) {
		return out
	}
	out[3] = 0x80
	kind := int(q[end])<<8 | int(q[end+1])
	address := "\x7f\x00\x00\x01"
	switch kind {
	case dnsAAAA:
		address = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	case dnsA:
	default:
		return out
	}
	out[7] = 1
	out = append(out, 0xc0, dnsHeader, 0, byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(len(address)))
	return append(out, address...)
}

// dnsNameEnd is where the question's type stands; -1: the name is none.
func dnsNameEnd(q []byte) int {
	at := dnsHeader
	for at < len(q) {
		n := int(q[at])
		if n == 0 {
			return at + 1
		}
		if n > 63 || at-dnsHeader+n > 254 { // pointers have no place in a question
			return -1
		}
		at += n + 1
	}
	return -1
}

// isLocalhost reports whether a name in wire form is localhost or below it.
func isLocalhost(name []byte) bool {
	const want = "\x09localhost\x00"
	for len(name) >= len(want) {
		if len(name) == len(want) {
			for i := range len(want) {
				c := name[i]
				if c >= 'A' && c <= 'Z' {
					c += 'a' - 'A'
				}
				if c != want[i] {
					return false
				}
			}
			return true
		}
		name = name[1+int(name[0]):]
	}
	return false
}
