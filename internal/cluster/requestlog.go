package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/setpoint-project/setpoint/internal/apiserver"
)

// requestLog writes one line of JSON for each request that ended. Lines are
// gathered and written at least once a second.
type requestLog struct {
	mu   sync.Mutex
	file *os.File
	buf  *bufio.Writer // guarded by mu
	idle *time.Timer   // guarded by mu; flushes
}

func openRequestLog(path string) (*requestLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--request-log: %w", err)
	}
	l := &requestLog{file: f, buf: bufio.NewWriterSize(f, 64<<10)}
	l.idle = time.AfterFunc(time.Hour, l.flush)
	return l, nil
}

// line is the form of a record in the file.
type line struct {
	Time      time.Time `json:"time"`
	User      string    `json:"user"`
	UserAgent string    `json:"userAgent,omitempty"`
	Method    string    `json:"method,omitempty"`
	URI       string    `json:"uri,omitempty"`
	Verb      string    `json:"verb"`
	Resource  string    `json:"resource,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	Code      int       `json:"code"`
	Bytes     int64     `json:"bytes,omitempty"`
	Micros    int64     `json:"us"`
	InProcess bool      `json:"inProcess,omitempty"`
}

func (l *requestLog) record(r apiserver.RequestRecord) {
	data, err := json.Marshal(line{r.Time, r.User, r.UserAgent, r.Method, r.URI, r.Verb, r.Resource, r.Namespace, r.Name, r.Code, r.Bytes, r.Duration.Microseconds(), r.InProcess})
	if err != nil {
		return // a record of strings and numbers always marshals
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Buffered() == 0 {
		l.idle.Reset(time.Second)
	}
	l.buf.Write(data)
	l.buf.WriteByte('\n')
}

func (l *requestLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Flush()
}

func (l *requestLog) close() error {
	l.idle.Stop()
	l.flush()
	return l.file.Close()
}
