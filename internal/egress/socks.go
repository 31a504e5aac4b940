package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// SOCKS 5 (RFC 1928), as far as programs that cannot speak to an HTTP proxy
// need it: no authentication, CONNECT alone.
const (
	socksVersion = 5

	socksConnect = 1
	socksIPv4    = 1
	socksName    = 3
	socksIPv6    = 4

	socksOK          = 0
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksCommand     = 7
	socksAddress     = 8
)

func (g *Gate) socks(ctx context.Context, c *peeked) {
	_ = c.SetDeadline(time.Now().Add(g.conf.Caps.Header))
	t, reply, err := readSOCKS(c)
	if err != nil {
		if reply != socksOK {
			now := time.Now().UTC()
			g.ledger.add(Entry{Begin: now, Phase: g.policy.Load().phase, Via: ViaSOCKS, Host: clip(t.host()), Port: t.Port, Verdict: Refused, Why: err.Error()})
			_ = answerSOCKS(c, reply) // it gets no more anyway
		}
		c.Close()
		return
	}
	out, err := g.Connect(ctx, ViaSOCKS, t)
	if err != nil {
		reply := byte(socksUnreachable)
		var r *RefusedError
		if errors.As(err, &r) {
			reply = socksNotAllowed
		}
		_ = answerSOCKS(c, reply)
		c.Close()
		return
	}
	if err := answerSOCKS(c, socksOK); err != nil {
		c.Close()
		out.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	out.Join(ctx, c)
}

// readSOCKS reads greeting and request. With an error, reply is what to answer,
// or 0 for nothing.
func readSOCKS(c io.ReadWriter) (t Target, reply byte, err error) {
	var b [256]byte
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return t, 0, err
	}
	if b[0] != socksVersion {
		return t, 0, errors.New("not SOCKS 5")
	}
	methods := b[:b[1]]
	if _, err := io.ReadFull(c, methods); err != nil {
		return t, 0, err
	}
	plain := false
	for _, m := range methods {
		plain = plain || m == 0
	}
	if !plain {
		_, err := c.Write([]byte{socksVersion, 0xff})
		return t, 0, errors.Join(errors.New("no method without authentication"), err)
	}
	if _, err := c.Write([]byte{socksVersion, 0}); err != nil {
		return t, 0, err
	}
	if _, err := io.ReadFull(c, b[:4]); err != nil {
		return t, 0, err
	}
	version, command, kind := b[0], b[1], b[3]
	if version != socksVersion {
		return t, 0, errors.New("not SOCKS 5")
	}
	host, reply, err := readSOCKSHost(c, kind)
	if err != nil {
		return t, reply, err
	}
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return t, 0, err
	}
	t.Port = binary.BigEndian.Uint16(b[:2])
	if command != socksConnect {
		t.Name = host
		return t, socksCommand, errors.New("a command other than CONNECT")
	}
	good, err := ParseTarget(host, t.Port)
	if err != nil {
		t.Name = host
		return t, socksNotAllowed, err
	}
	return good, 0, nil
}

func readSOCKSHost(c io.Reader, kind byte) (host string, reply byte, err error) {
	var b [256]byte
	switch kind {
	case socksIPv4:
		_, err = io.ReadFull(c, b[:4])
		return netip.AddrFrom4([4]byte(b[:4])).String(), 0, err
	case socksIPv6:
		_, err = io.ReadFull(c, b[:16])
		return netip.AddrFrom16([16]byte(b[:16])).String(), 0, err
	case socksName:
		if _, err = io.ReadFull(c, b[:1]); err != nil {
			return "", 0, err
		}
		name := b[:b[0]]
		_, err = io.ReadFull(c, name)
		return string(name), 0, err
	}
	return "", socksAddress, errors.New("an unknown kind of address")
}

func answerSOCKS(c net.Conn, reply byte) error {
	_, err := c.Write([]byte{socksVersion, reply, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
