// The steps of ../README.md with franz-go: client BOOTSTRAP JOB.json; members of groups: client BOOTSTRAP; a user's jobs
// on secured listeners: client; a client of a registry: client BOOTSTRAP REGISTRY JOB.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	wait    = 20 * time.Second
	largest = 8 << 20
	quota   = "consumer_byte_rate"
)

type record struct {
	Partition   int32        `json:"partition"`
	TimestampMs int64        `json:"timestamp_ms"`
	Key         []byte       `json:"key"`
	Value       []byte       `json:"value"`
	Headers     [][2]*string `json:"headers"`
}

type job struct {
	Topics map[string]struct {
		Partitions int32             `json:"partitions"`
		Configs    map[string]string `json:"configs"`
	} `json:"topics"`
	Runs []struct {
		Topic      string `json:"topic"`
		Codec      string `json:"codec"`
		Idempotent bool   `json:"idempotent"`
		Partitions int32  `json:"partitions"`
		Committed  bool   `json:"committed"`
	} `json:"runs"`
	Records      []record `json:"records"`
	AtMs         int64    `json:"at_ms"`
	BeyondMs     int64    `json:"beyond_ms"`
	LargeBytes   int      `json:"large_bytes"`
	DeleteBefore int64    `json:"delete_before"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var (
	ctx       = context.Background()
	bootstrap string
	admin     *kadm.Client
)

func main() {
	if len(os.Args) == 1 {
		secured()
		return
	}
	if len(os.Args) == 4 {
		registry()
		return
	}
	bootstrap = os.Args[1]
	if len(os.Args) == 2 {
		members()
		return
	}
	var todo job
	must(json.Unmarshal(got(os.ReadFile(os.Args[2])), &todo))
	admin = kadm.NewClient(open())
	defer admin.Close()
	fmt.Println(string(got(json.Marshal(todo.report()))))
}

func (todo *job) report() map[string]any {
	report := map[string]any{"client": version()}
	for name, topic := range todo.Topics {
		configs := map[string]*string{}
		for key, value := range topic.Configs {
			configs[key] = &value
		}
		got(admin.CreateTopic(ctx, topic.Partitions, 1, configs, name))
	}
	_, err := admin.CreateTopic(ctx, 1, 1, nil, "none")
	report["created_again"] = code(err)

	acked, read := map[string][]int64{}, map[string][][]any{}
	for _, run := range todo.Runs {
		records := todo.records(run.Topic, run.Partitions)
		acked[run.Topic] = got(produce(records, run.Codec, run.Idempotent))
		for _, each := range consume(run.Topic, run.Partitions, len(records), run.Committed) {
			read[run.Topic] = append(read[run.Topic], row(each))
		}
	}
	report["acked"], report["read"] = acked, read
	none := func(found kadm.ListedOffsets, err error) kadm.ListedOffset {
		must(err)
		return found["none"][0]
	}
	at, beyond := todo.AtMs, todo.BeyondMs
	report["offsets"] = map[string]any{
		"earliest": none(admin.ListStartOffsets(ctx, "none")).Offset,
		"latest":   none(admin.ListEndOffsets(ctx, "none")).Offset,
		"at":       none(admin.ListOffsetsAfterMilli(ctx, at, "none")).Offset,
		"beyond":   found(none(admin.ListOffsetsAfterMilli(ctx, beyond, "none"))),
	}
	report["max_timestamp"] = none(admin.ListMaxTimestampOffsets(ctx, "none")).Offset
	report["tail_ms"] = tail(todo.records("tail", 1)[0])

	large := make([]byte, todo.LargeBytes)
	got(produce([]*kgo.Record{{Topic: "large", Value: large}}, "none", false))
	report["large"] = len(consume("large", 1, 1, false)[0].Value)
	_, err = produce([]*kgo.Record{{Topic: "none", Value: large}}, "none", false)
	report["too_large"] = code(err)

	more(report)
	low, err := deleteRecords(todo.DeleteBefore)
	must(err)
	report["low_watermark"] = low
	report["first_left"] = consume("none", 1, 1, false)[0].Offset
	_, err = deleteRecords(1 << 40)
	report["deleted_beyond"] = code(err)

	chosen, configs := map[string]string{}, describe("doomed")
	for name := range todo.Topics["doomed"].Configs {
		chosen[name] = configs[name]
	}
	report["configs"] = chosen
	value := "4711"
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}
	must(got(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, "doomed"))[0].Err)
	report["altered"] = describe("doomed")["retention.ms"]
	must(got(admin.CreatePartitions(ctx, 2, "doomed")).Error())
	report["partitions"] = len(got(admin.ListTopics(ctx, "doomed"))["doomed"].Partitions)
	got(admin.DeleteTopic(ctx, "doomed"))
	topics := got(admin.ListTopics(ctx)).Names()
	sort.Strings(topics)
	report["topics"] = topics
	_, err = admin.DeleteTopic(ctx, "doomed")
	report["deleted_again"] = code(err)
	brokers := got(admin.BrokerMetadata(ctx))
	cluster := map[string]any{"id": brokers.Cluster, "controller": brokers.Controller, "nodes": brokers.Brokers.NodeIDs()}
	report["cluster"] = cluster
	return report
}

func more(report map[string]any) {
	place := kadm.TopicsSet{}
	place.Add("idempotent-none", 0)
	producers := got(admin.DescribeProducers(ctx, place))
	report["producers"] = len(producers["idempotent-none"].Partitions[0].ActiveProducers)
	for _, directories := range got(admin.DescribeAllLogDirs(ctx, place)) {
		partition, _ := directories.LookupPartition("idempotent-none", 0)
		report["log_size_bytes"] = partition.Size
	}
	client := open()
	defer client.Close()
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "franz-go", "test"
	for _, feature := range got(versions.RequestWith(ctx, client)).FinalizedFeatures {
		if feature.Name == "metadata.version" {
			report["metadata_version"] = feature.MaxVersionLevel
		}
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	topic, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, partition)
	quorum.Topics = append(quorum.Topics, topic)
	answer := got(quorum.RequestWith(ctx, client))
	report["quorum_leader"] = answer.Topics[0].Partitions[0].LeaderID

	thrifty := "thrifty"
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &thrifty}}
	set := kadm.AlterClientQuotaOp{Key: quota, Value: 1 << 20}
	change := kadm.AlterClientQuotaEntry{Entity: entity, Ops: []kadm.AlterClientQuotaOp{set}}
	must(got(admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{change}))[0].Err)
	only := kadm.DescribeClientQuotaComponent{Type: "client-id", MatchName: &thrifty, MatchType: kmsg.QuotasMatchTypeExact}
	described := got(admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{only}))
	report["quota"] = described[0].Values[0].Value
}

func open(more ...kgo.Opt) *kgo.Client {
	soon := kgo.MetadataMinAge(100 * time.Millisecond) // to ask again for a topic that is being made; by default 5 s
	return got(kgo.NewClient(append(more, kgo.SeedBrokers(bootstrap), soon)...))
}

func produce(records []*kgo.Record, codec string, idempotent bool) ([]int64, error) {
	options := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerBatchMaxBytes(largest),
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client := open(options...)
	defer client.Close()
	var offsets []int64
	for _, each := range client.ProduceSync(ctx, records...) {
		if each.Err != nil {
			return nil, each.Err
		}
	}
	for _, each := range records { // ProduceSync answers in the order of their ends
		offsets = append(offsets, each.Offset)
	}
	return offsets, nil
}

func consumer(topic string, partitions int32, more ...kgo.Opt) *kgo.Client {
	places := map[int32]kgo.Offset{}
	for partition := range partitions {
		places[partition] = kgo.NewOffset().AtStart()
	}
	return open(append(more, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: places}))...)
}

func consume(topic string, partitions int32, count int, committed bool) []*kgo.Record {
	isolation := kgo.ReadUncommitted()
	if committed {
		isolation = kgo.ReadCommitted()
	}
	client := consumer(topic, partitions, kgo.FetchIsolationLevel(isolation))
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(limited)
		must(fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

// tail: milliseconds from sending a record until it is read.
func tail(sent *kgo.Record) float64 {
	client := consumer("tail", 1, kgo.FetchMaxWait(wait))
	defer client.Close()
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if !client.PollFetches(soon).Empty() {
		log.Fatal("nothing there yet")
	}
	begin := time.Now()
	got(produce([]*kgo.Record{sent}, "none", false))
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	must(client.PollFetches(limited).Err())
	return float64(time.Since(begin).Microseconds()) / 1000
}

func deleteRecords(before int64) (int64, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset("none", 0, before, -1)
	answer := got(admin.DeleteRecords(ctx, offsets))["none"][0]
	return answer.LowWatermark, answer.Err
}

func describe(topic string) map[string]string {
	found := map[string]string{}
	for _, config := range got(admin.DescribeTopicConfigs(ctx, topic))[0].Configs {
		found[config.Key] = config.MaybeValue()
	}
	return found
}

// found: where there is none, kadm answers with the end and no timestamp.
func found(listed kadm.ListedOffset) any {
	if listed.Timestamp < 0 {
		return nil
	}
	return listed.Offset
}

func (todo *job) records(topic string, partitions int32) []*kgo.Record {
	var records []*kgo.Record
	for _, each := range todo.Records {
		var headers []kgo.RecordHeader
		for _, header := range each.Headers {
			var value []byte
			must(json.Unmarshal(quoted(header[1]), &value))
			headers = append(headers, kgo.RecordHeader{Key: *header[0], Value: value})
		}
		if each.Partition < partitions {
			records = append(records, &kgo.Record{
				Topic: topic, Partition: each.Partition, Timestamp: time.UnixMilli(each.TimestampMs),
				Key: each.Key, Value: each.Value, Headers: headers,
			})
		}
	}
	return records
}

func quoted(text *string) []byte { return got(json.Marshal(text)) }

func row(each *kgo.Record) []any {
	headers := [][2]any{}
	for _, header := range each.Headers {
		headers = append(headers, [2]any{header.Key, header.Value})
	}
	return []any{each.Partition, each.Offset, each.Timestamp.UnixMilli(), each.Key, each.Value, headers}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return "franz-go " + module.Version
		}
	}
	return "franz-go"
}

// code: Kafka's code of an error; 0: none.
func code(err error) int16 {
	var known *kerr.Error
	if err == nil {
		return 0
	}
	if !errors.As(err, &known) {
		log.Fatal(err)
	}
	return known.Code
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}
