package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// load asks every URL over and over, one request after the other, until input
// ends: over a new connection each time, but with a "keep:" before the URL over
// one that is kept for as long as the server likes. What was not answered with
// 200 and a whole body is printed, and in the end for each URL a line such as
// "http://... answered 321, lost 0".
func load(urls []string, input io.Reader, output io.Writer) error {
	if len(urls) == 0 {
		return errors.New("load of which URL?")
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex // guards output
	for _, url := range urls {
		all.Go(func() {
			answered, lost := ask(url, done, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(output, "%s lost %s: %v\n", time.Now().UTC().Format("15:04:05.000"), url, err)
			})
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(output, "%s answered %d, lost %d\n", url, answered, lost)
		})
	}
	_, err := io.Copy(io.Discard, input)
	close(done)
	all.Wait()
	return err
}

func ask(url string, done <-chan struct{}, complain func(error)) (answered, lost int) {
	transport := &http.Transport{DisableKeepAlives: true}
	if kept, ok := strings.CutPrefix(url, "keep:"); ok {
		url, transport.DisableKeepAlives = kept, false
	}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for {
		select {
		case <-done:
			return answered, lost
		case <-time.After(10 * time.Millisecond): // a steady rate, not a flood
		}
		if err := whole(client, url); err != nil {
			lost++
			complain(err)
		} else {
			answered++
		}
	}
}

// whole makes one request and reads its answer to the end.
func whole(client *http.Client, url string) error {
	begin := time.Now()
	res, err := client.Get(url)
	if err != nil {
		return fmt.Errorf("after %s: %w", time.Since(begin).Round(time.Millisecond), err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("after %s, cut behind %q: %w", time.Since(begin).Round(time.Millisecond), body, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", res.Status, body)
	}
	return nil
}
