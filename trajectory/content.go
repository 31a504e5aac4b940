package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Content is a message: plain text, or parts where Parts is not nil.
type Content struct {
	Text  string
	Parts []Part
}

// Text makes plain content.
func Text(s string) Content { return Content{Text: s} }

// String is the text of the content, media shown as [image: path].
func (c Content) String() string {
	if c.Parts == nil {
		return c.Text
	}
	var b strings.Builder
	for i, p := range c.Parts {
		if i > 0 {
			b.WriteByte('\n')
		}
		switch {
		case p.Text != nil:
			b.WriteString(*p.Text)
		case p.Media != nil:
			fmt.Fprintf(&b, "[%s: %s]", p.Type, p.Media.Path)
		}
	}
	return b.String()
}

// MarshalJSON writes a string, or a list of parts.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Parts == nil {
		return marshal(c.Text)
	}
	return marshal(c.Parts)
}

// UnmarshalJSON reads a string or a list of parts.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &c.Text)
	}
	c.Parts = []Part{}
	return json.Unmarshal(data, &c.Parts)
}

// audioAliases are spellings that producers use in place of the registered
// type; the validator accepts them and Canonical replaces them.
func audioAliases() map[string]string {
	return map[string]string{
		"audio/mp3": "audio/mpeg", "audio/mpga": "audio/mpeg", "audio/x-mpeg": "audio/mpeg",
		"audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/vnd.wave": "audio/wav",
		"audio/x-m4a": "audio/mp4", "audio/m4a": "audio/mp4",
		"audio/x-aac": "audio/aac", "audio/x-flac": "audio/flac", "audio/x-aiff": "audio/aiff",
	}
}

func imageTypes() []string {
	return []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
}

func audioTypes() []string {
	return []string{"audio/wav", "audio/mpeg", "audio/mp4", "audio/aac", "audio/ogg", "audio/flac", "audio/webm", "audio/aiff"}
}

// CanonicalAudio is the registered media type for a spelling of one; unknown
// spellings come back trimmed and in lower case.
func CanonicalAudio(mediaType string) string {
	s := strings.ToLower(strings.TrimSpace(mediaType))
	if c, ok := audioAliases()[s]; ok {
		return c
	}
	return s
}
