// A user's jobs on a secured listener, see ../README.md.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const partitions = 2

type login struct {
	user, secret string
	isToken      bool
}

type userJob struct {
	Bootstrap  string   `json:"bootstrap"`
	CA         string   `json:"ca"`
	Name       string   `json:"name"`
	Forbidden  string   `json:"forbidden"`
	Mechanism  string   `json:"mechanism"`
	User       string   `json:"user"`
	Secret     string   `json:"secret"`
	Wrong      string   `json:"wrong"`
	Keys       string   `json:"keys"`
	Delegation bool     `json:"delegation"`
	Values     []string `json:"values"`
	Kept       string   `json:"kept"`
	Lost       string   `json:"lost"`
}

func secured() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var todo userJob
		must(json.Unmarshal(lines.Bytes(), &todo))
		fmt.Println(string(got(json.Marshal(todo.report()))))
	}
}

func (todo *userJob) report() map[string]any {
	report := map[string]any{}
	own := login{user: todo.User, secret: todo.Secret}
	if todo.Delegation {
		token := todo.newToken(own, report)
		own = login{token.TokenID, base64.StdEncoding.EncodeToString(token.HMAC), true}
	}
	todo.take(own, report)
	if todo.Delegation {
		admin := kadm.NewClient(todo.open(own))
		defer admin.Close()
		_, err := admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{MaxLifetime: -1})
		report["token_of_token"] = code(err)
	}
	if todo.Wrong != "" {
		client := todo.open(login{user: todo.User, secret: todo.Wrong})
		defer client.Close()
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if err := client.Ping(limited); err != nil {
			report["turned_away"] = err.Error()
		}
	}
	return report
}

func (todo *userJob) take(own login, report map[string]any) {
	admin := kadm.NewClient(todo.open(own))
	defer admin.Close()
	_, err := admin.CreateTopic(ctx, partitions, 1, nil, todo.Forbidden)
	report["refused"] = code(err)
	got(admin.CreateTopic(ctx, partitions, 1, nil, todo.Name))
	report["topics"] = got(admin.ListTopics(ctx)).Names()

	producer := todo.open(own)
	for _, value := range todo.Values {
		must(producer.ProduceSync(ctx, todo.record(value)).FirstErr())
	}
	producer.Close()
	producer = todo.open(own, kgo.TransactionalID(todo.Name))
	for value, end := range map[string]kgo.TransactionEndTry{todo.Kept: kgo.TryCommit, todo.Lost: kgo.TryAbort} {
		must(producer.BeginTransaction())
		must(producer.ProduceSync(ctx, todo.record(value)).FirstErr())
		must(producer.EndTransaction(ctx, end))
	}
	producer.Close()
	report["read"] = todo.read(own)
}

func (todo *userJob) read(own login) []string {
	client := todo.open(own, kgo.ConsumerGroup(todo.Name), kgo.ConsumeTopics(todo.Name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	found := []string{}
	for len(found) <= len(todo.Values) {
		fetches := client.PollFetches(limited)
		must(fetches.Err())
		for _, each := range fetches.Records() {
			found = append(found, string(each.Value))
		}
	}
	must(client.CommitUncommittedOffsets(ctx))
	return found
}

func (todo *userJob) newToken(own login, report map[string]any) kadm.DelegationToken {
	admin := kadm.NewClient(todo.open(own))
	defer admin.Close()
	renewers := []kadm.Principal{{Type: "User", Name: "renata"}}
	asked := kadm.CreateDelegationToken{Renewers: renewers, MaxLifetime: -1}
	token := got(admin.CreateDelegationToken(ctx, asked))
	renewed := got(admin.RenewDelegationToken(ctx, token.HMAC, -1))
	for _, each := range got(admin.DescribeDelegationTokens(ctx)) {
		if each.TokenID == token.TokenID {
			later := !renewed.Before(token.ExpiryTimestamp) && !renewed.After(each.MaxTimestamp)
			told := []string{}
			for _, renewer := range each.Renewers {
				told = append(told, renewer.Type+":"+renewer.Name)
			}
			owner := each.Owner.Type + ":" + each.Owner.Name
			report["token"] = map[string]any{"owner": owner, "renewers": told, "renewed": later}
		}
	}
	return token
}

func (todo *userJob) open(own login, more ...kgo.Opt) *kgo.Client {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(got(os.ReadFile(todo.CA)))
	config := &tls.Config{RootCAs: trusted}
	if todo.Keys != "" {
		config.Certificates = []tls.Certificate{got(tls.LoadX509KeyPair(todo.Keys, todo.Keys))}
	}
	options := append(more, kgo.SeedBrokers(todo.Bootstrap), kgo.DialTLSConfig(config))
	if mechanism := todo.mechanism(own); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return got(kgo.NewClient(options...))
}

func (todo *userJob) mechanism(own login) sasl.Mechanism {
	auth := scram.Auth{User: own.user, Pass: own.secret, IsToken: own.isToken}
	switch todo.Mechanism {
	case "PLAIN":
		return plain.Auth{User: own.user, Pass: own.secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: own.secret}.AsMechanism()
	}
	return nil
}

func (todo *userJob) record(value string) *kgo.Record {
	return &kgo.Record{Topic: todo.Name, Value: []byte(value)}
}
