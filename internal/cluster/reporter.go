package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// heartbeat is how often a part reports though nothing has changed.
	heartbeat = 10 * time.Second
	// reportEvery is the least time between two reports.
	reportEvery = time.Second
	// maxReported bounds the gaps of a report; a last one counts the others.
	// maxText bounds what each says, in bytes.
	maxReported = 500
	maxText     = 512
	// reportTimeout ends a report that the API server does not answer.
	reportTimeout = 5 * time.Second
)

// reporter tells the API server the gaps of a part that runs alone: at most
// once a second when they have changed, else as a heartbeat.
type reporter struct {
	client *http.Client
	url    string // GapsPath/USER/COPY of the API server
	part   string
	gaps   *gapList
	log    *slog.Logger
}

// startReporter reports gaps as those of a part that acts as user.
func startReporter(p *parts, cfg *rest.Config, part, user string, gaps *gapList, log *slog.Logger) error {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	r := &reporter{client: c, url: cfg.Host + GapsPath + "/" + url.PathEscape(user) + "/" + url.PathEscape(thisCopy()), part: part, gaps: gaps, log: log}
	p.run("gaps", r.run)
	return nil
}

// thisCopy tells this process from other copies of the same part.
func thisCopy() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// run reports until ctx ends, and says goodbye then.
func (r *reporter) run(ctx context.Context) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var sent []byte // what the API server has; nil: nobody knows
	var at time.Time
	failures := 0
	for {
		body := r.body()
		due := time.Since(at) >= heartbeat
		if failures > 0 {
			due = time.Since(at) >= min(time.Duration(failures)*reportEvery, reportTimeout)
		}
		if due || failures == 0 && !bytes.Equal(body, sent) {
			at = time.Now()
			err := r.send(ctx, http.MethodPut, body)
			switch {
			case ctx.Err() != nil:
			case err == nil:
				sent, failures = body, 0
			default:
				if failures++; failures == 1 {
					r.log.Warn("open gaps are not reported", "part", r.part, "error", err)
				}
				sent = nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportEvery)
			defer cancel()
			if err := r.send(bye, http.MethodDelete, nil); err != nil {
				r.log.Debug("no goodbye", "part", r.part, "error", err)
			}
			return nil
		}
	}
}

// body is the report as it is now.
func (r *reporter) body() []byte {
	gaps := r.gaps.all()
	if more := len(gaps) - maxReported; more > 0 {
		gaps = append(gaps[:maxReported:maxReported], Gap{Loop: r.part, State: "waiting", Since: gaps[maxReported].Since,
			Reason: fmt.Sprintf("%d more gaps are open", more)})
	}
	for i := range gaps {
		gaps[i].On, gaps[i].Reason = shorten(gaps[i].On), shorten(gaps[i].Reason)
	}
	body, err := json.Marshal(report{r.part, gaps})
	if err != nil {
		panic(err) // strings and times always marshal
	}
	return body
}

func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + " ..."
}

func (r *reporter) send(ctx context.Context, method string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "setpoint-"+r.part)
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, r.url, res.Status, bytes.TrimSpace(answer))
	}
	return err
}
