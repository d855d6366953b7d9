// Members of groups, see ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type command struct {
	Do          string `json:"do"`
	Member      string `json:"member"`
	Topic       string `json:"topic"`
	Group       string `json:"group"`
	Reset       string `json:"reset"`
	Instance    string `json:"instance"`
	SessionMs   int    `json:"session_ms"`
	HeartbeatMs int    `json:"heartbeat_ms"`
}

type member struct {
	name     string
	client   *kgo.Client
	asked    chan string
	lock     sync.Mutex
	assigned map[int32]bool
}

var (
	output sync.Mutex
	resets = map[string]kgo.Offset{
		"earliest": kgo.NewOffset().AtStart(),
		"latest":   kgo.NewOffset().AtEnd(),
		"none":     kgo.NewOffset().AtCommitted(),
	}
)

func members() {
	known := map[string]*member{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var todo command
		must(json.Unmarshal(lines.Bytes(), &todo))
		if todo.Do == "open" {
			known[todo.Member] = todo.open()
			go known[todo.Member].run()
		} else {
			known[todo.Member].asked <- todo.Do
		}
	}
}

func (todo command) open() *member {
	m := &member{name: todo.Member, asked: make(chan string, 8), assigned: map[int32]bool{}}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(todo.Group),
		kgo.ConsumeTopics(todo.Topic),
		kgo.ConsumeResetOffset(resets[todo.Reset]),
		kgo.SessionTimeout(time.Duration(todo.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(todo.HeartbeatMs) * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(m.changed(true)),
		kgo.OnPartitionsRevoked(m.changed(false)),
		kgo.OnPartitionsLost(m.changed(false)),
	}
	if todo.Instance != "" {
		options = append(options, kgo.InstanceID(todo.Instance))
	}
	m.client = got(kgo.NewClient(options...))
	return m
}

func (m *member) changed(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partitions := range changed {
			for _, partition := range partitions {
				m.assigned[partition] = has
			}
		}
		now := []int32{}
		for partition, has := range m.assigned {
			if has {
				now = append(now, partition)
			}
		}
		sort.Slice(now, func(i, j int) bool { return now[i] < now[j] })
		m.tell("assigned", now)
	}
}

func (m *member) run() {
	for {
		select {
		case what := <-m.asked:
			if what == "close" {
				m.client.Close()
				m.tell("closed", true)
				return
			}
			must(m.client.CommitUncommittedOffsets(ctx))
			m.tell("committed", true)
		default:
			m.poll()
		}
	}
}

func (m *member) poll() {
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	fetches := m.client.PollFetches(short)
	fetches.EachError(func(_ string, _ int32, err error) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
		case err.Error() == "partition has no prior committed offset":
			m.tell("error", "no offset")
		default:
			m.tell("error", err.Error())
		}
	})
	values := []string{}
	fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	if len(values) > 0 {
		m.tell("values", values)
	}
}

func (m *member) tell(what string, value any) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(got(json.Marshal(map[string]any{"member": m.name, what: value}))))
}
