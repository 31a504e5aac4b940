package mirrors

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
)

type mavenSettings struct {
	replaced bool
	kept     []node // children of <settings> that matter inside
	from     []string
	secret   bool
	security source // settings-security.xml
}

// node is an XML element. Names lose their name space: settings.xml has one.
type node struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
	Nodes   []node `xml:",any"`
}

func (n node) child(name string) node {
	for _, c := range n.Nodes {
		if c.XMLName.Local == name {
			return c
		}
	}
	return node{}
}

func (n node) text(name string) string { return strings.TrimSpace(n.child(name).Text) }

// readMaven reads the global settings and the user's. Of one element the
// user's counts.
func (s *Settings) readMaven(h Host) error {
	files := []string{"/etc/maven/settings.xml", "/usr/share/maven/conf/settings.xml"}
	if p, _ := h.env("MAVEN_HOME", "M2_HOME"); p != "" {
		files = []string{p + "/conf/settings.xml"}
	}
	for _, p := range append(files, h.home(".m2/settings.xml")) {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			continue
		}
		n, err := parseXML([]byte(b))
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		s.mavenFile(h, n, p)
	}
	p := h.home(".m2/settings-security.xml")
	b, err := h.read(p)
	s.maven.security = source{p, b}
	return err
}

const maxXMLDepth = 50

func parseXML(b []byte) (node, error) {
	depth, d := 0, xml.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return node{}, err
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > maxXMLDepth {
				return node{}, fmt.Errorf("elements are nested more than %d deep", maxXMLDepth)
			}
		case xml.EndElement:
			depth--
		}
	}
	var n node
	err := xml.Unmarshal(b, &n)
	return n, err
}

func (s *Settings) mavenFile(h Host, n node, from string) {
	used := false
	for _, c := range n.Nodes {
		substitute(h, &c)
		switch c.XMLName.Local {
		case "mirrors":
			for _, m := range c.Nodes {
				if m.text("blocked") == "true" {
					continue // Maven's own way to forbid plain HTTP: a mirror that is no server
				}
				s.add("maven", m.text("url"), from)
				of := strings.Split(m.text("mirrorOf"), ",")
				s.maven.replaced = s.maven.replaced || slices.Contains(of, "*") || slices.Contains(of, "external:*") || slices.Contains(of, "central")
			}
		case "profiles":
			for _, p := range c.Nodes {
				for _, r := range append(p.child("repositories").Nodes, p.child("pluginRepositories").Nodes...) {
					s.add("maven", r.text("url"), from)
				}
			}
		case "servers":
			s.maven.secret = s.maven.secret || len(c.Nodes) > 0
		case "activeProfiles", "pluginGroups":
		case "proxies":
			s.mavenProxy(c, from)
			continue
		default:
			continue // offline, localRepository, interactiveMode: this machine's own
		}
		if len(c.Nodes) == 0 {
			continue
		}
		used = true
		s.maven.kept = slices.DeleteFunc(s.maven.kept, func(o node) bool { return o.XMLName.Local == c.XMLName.Local })
		s.maven.kept = append(s.maven.kept, c)
	}
	if used {
		s.maven.from = append(s.maven.from, from)
	}
}

// mavenProxy takes the first proxy that is active, as Maven does.
func (s *Settings) mavenProxy(c node, from string) {
	for _, p := range c.Nodes {
		if p.text("active") == "false" || p.text("host") == "" {
			continue
		}
		u := url.URL{Scheme: "http", Host: net.JoinHostPort(p.text("host"), cmp.Or(p.text("port"), "8080"))} // Maven's default
		if name := p.text("username"); name != "" {
			u.User = url.UserPassword(name, p.text("password"))
		}
		s.through("maven", "", u.String(), from)
		own := s.Own["maven"]
		own.No = strings.ReplaceAll(strings.ReplaceAll(p.text("nonProxyHosts"), "|", ","), "*.", ".")
		s.own("maven", own)
		return
	}
}

func substitute(h Host, n *node) {
	n.Text = expand(h, n.Text)
	for i := range n.Nodes {
		substitute(h, &n.Nodes[i])
	}
}

// settings is a settings.xml for a sandbox whose way out is the proxy at
// host and port; an empty host means none.
func (m mavenSettings) settings(host, port string) []byte {
	var b bytes.Buffer
	b.WriteString("<settings>\n")
	if host != "" {
		fmt.Fprintf(&b, "<proxies><proxy><id>assay</id><active>true</active><protocol>http</protocol><host>%s</host><port>%s</port>"+
			"<nonProxyHosts>localhost|127.0.0.1</nonProxyHosts></proxy></proxies>\n", host, port)
	}
	for _, n := range m.kept {
		n.write(&b)
		b.WriteByte('\n')
	}
	b.WriteString("</settings>\n")
	return b.Bytes()
}

func (n node) write(b *bytes.Buffer) {
	b.WriteString("<" + n.XMLName.Local + ">")
	if len(n.Nodes) == 0 {
		_ = xml.EscapeText(b, []byte(strings.TrimSpace(n.Text))) // writes to memory do not fail
	}
	for _, c := range n.Nodes {
		c.write(b)
	}
	b.WriteString("</" + n.XMLName.Local + ">")
}
