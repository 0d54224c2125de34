package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
	"github.com/setpoint-project/setpoint/internal/store/storetest"
)

// childDir, when set, makes the test binary a writer for TestKill.
const childDir = "STORE_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child writes to the store in dir until it is killed. It says "begin KEY
// VALUE" before each write and "ack REVISION KEY VALUE" after; VALUE is "-"
// for a deletion.
func child(dir string) error {
	s, err := local.Open(local.Churn(local.Options{Dir: dir, HistoryRevisions: 500}))
	if err != nil {
		return err
	}
	run := os.Getpid()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(run), uint64(w)))
			for i := 0; ; i++ {
				if err := childWrite(s, rng, fmt.Sprintf("%d-%d-%d", run, w, i)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

func childWrite(s *local.Store, rng *rand.Rand, value string) error {
	ctx := context.Background()
	key := fmt.Sprintf("/k/%d", rng.IntN(20))
	// One line is one write to the pipe, so that lines are whole.
	if rng.IntN(5) == 0 {
		fmt.Printf("begin %s -\n", key)
		e, err := s.Delete(ctx, key, store.Any)
		if c := (*store.Conflict)(nil); errors.As(err, &c) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Printf("ack %d %s -\n", e.Record.Revision, key)
		return nil
	}
	fmt.Printf("begin %s %s\n", key, value)
	r, err := s.Put(ctx, store.Put{Key: key, Value: []byte(value), Expect: store.Any})
	if err != nil {
		return err
	}
	fmt.Printf("ack %d %s %s\n", r.Revision, key, value)
	return nil
}

func TestKill(t *testing.T) {
	rng := rand.New(rand.NewPCG(storetest.Seed(t), 0))
	dir := t.TempDir()
	l := newLedger()
	for round := range 12 {
		killOne(t, dir, l, rng.IntN(400))
		s, err := local.Open(local.Options{Dir: dir})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		l.check(t, s, l.copyAcked())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if len(l.acked) < 100 {
		t.Errorf("only %d writes were acknowledged", len(l.acked))
	}
}

// killOne starts a writer, kills it after some lines, and enters in the ledger
// all that it said.
func killOne(t *testing.T, dir string, l *ledger, lines int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for n := 0; in.Scan(); n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		f := strings.Fields(in.Text())
		switch {
		case len(f) == 3 && f[0] == "begin":
			l.begin(f[1], strings.Trim(f[2], "-"))
		case len(f) == 4 && f[0] == "ack":
			rev, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.ack(rev, f[2], strings.Trim(f[3], "-")); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("the writer said %q", in.Text())
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer ended by itself: %v", err)
	}
}
