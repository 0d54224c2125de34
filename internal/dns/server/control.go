package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
	"github.com/setpoint-project/setpoint/internal/dns/zone"
)

// control talks with the node, with one at a time: a new connection ends the
// one before.
type control struct {
	server  *Server
	program string
	at      []netip.AddrPort

	mu struct {
		sync.Mutex
		conn net.Conn // nil: the node is away
		told []string // looping resolvers, as last told
	}
}

func (c *control) serve(l net.Listener) error {
	var last sync.WaitGroup
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		c.mu.Lock()
		if c.mu.conn != nil {
			c.mu.conn.Close()
		}
		c.mu.conn = conn
		c.mu.Unlock()
		last.Wait() // two pictures at once would be one of neither
		c.tellStatus(conn)
		last.Go(func() {
			if err := c.read(conn); err != nil {
				c.server.log.Debug("the node goes away", "error", err)
			}
			c.mu.Lock()
			if c.mu.conn == conn {
				c.mu.conn = nil
			}
			c.mu.Unlock()
			conn.Close()
		})
	}
}

// read takes what the node says until the connection ends.
func (c *control) read(conn net.Conn) error {
	in := json.NewDecoder(bufio.NewReader(conn))
	var next *zone.Zone // the one being told
	var config *wire.Config
	for {
		var m wire.Message
		if err := in.Decode(&m); err != nil {
			return err
		}
		switch {
		case m.Config != nil:
			next, config = zone.New(*m.Config), m.Config
		case next == nil:
			return fmt.Errorf("the node began without a configuration")
		case m.Service != nil:
			next.Set(m.Service)
		case m.Gone != "":
			next.Remove(m.Gone)
		case m.Namespace != "":
			next.SetNamespace(m.Namespace, true)
		case m.NoMore != "":
			next.SetNamespace(m.NoMore, false)
		case m.Synced:
			c.server.upstream.use(config.ResolvConf, config.ServiceIPs...)
			c.server.zone.Store(next)
		}
	}
}

// tell tells the node when there is something new.
func (c *control) tell() {
	c.mu.Lock()
	conn, news := c.mu.conn, !slices.Equal(c.mu.told, c.server.upstream.looping())
	c.mu.Unlock()
	if conn != nil && news {
		c.tellStatus(conn)
	}
}

func (c *control) tellStatus(conn net.Conn) {
	looping := c.server.upstream.looping()
	line, err := json.Marshal(wire.Status{Program: c.program, At: c.at, Looping: looping})
	if err != nil {
		return // strings always marshal
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.told = looping
	_, _ = conn.Write(append(line, '\n')) // a connection that has ended is seen by read
}
