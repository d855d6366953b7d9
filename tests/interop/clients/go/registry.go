package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/debug"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type value = map[string]any

type format struct {
	Type         sr.SchemaType `json:"type"`
	Topic        string        `json:"topic"`
	First        string        `json:"first"`
	Evolved      string        `json:"evolved"`
	Incompatible string        `json:"incompatible"`
	Reference    string        `json:"reference"`
	Customer     string        `json:"customer"`
	Sale         string        `json:"sale"`
}

type registryJob struct {
	Formats []format `json:"formats"`
	Orders  []value  `json:"orders"`
	Noted   []value  `json:"noted"`
	Sales   []value  `json:"sales"`
}

// codec encodes and decodes the values of a schema.
type codec struct {
	encode func(any) ([]byte, error)
	decode func([]byte, any) error
}

// registry takes the steps of ../README.md for clients of a registry: client BOOTSTRAP REGISTRY JOB.json
func registry() {
	bootstrap = os.Args[1]
	var todo registryJob
	must(json.Unmarshal(got(os.ReadFile(os.Args[3])), &todo))
	client := got(sr.NewClient(sr.URLs(os.Args[2])))
	formats := map[string]any{}
	for _, each := range todo.Formats {
		ids, report := each.register(client)
		each.write(client, ids, &todo)
		// a client of its own, which has to ask for the schemas of the ids that it finds
		reader := got(sr.NewClient(sr.URLs(os.Args[2])))
		report["orders"] = each.read(reader, each.Topic, len(todo.Orders)+len(todo.Noted))
		report["sales"] = each.read(reader, each.Topic+"-sales", len(todo.Sales))
		formats[each.Type.String()] = report
	}
	fmt.Println(string(got(json.Marshal(map[string]any{"client": "franz-go sr " + srVersion(), "formats": formats}))))
}

func (f format) register(client *sr.Client) ([]int, map[string]any) {
	subject, sales := f.Topic+"-value", f.Topic+"-sales-value"
	schema := func(text string, references ...sr.SchemaReference) sr.Schema {
		return sr.Schema{Schema: text, Type: f.Type, References: references}
	}
	add := func(subject string, schema sr.Schema) int { return got(client.CreateSchema(ctx, subject, schema)).ID }
	first, evolved := add(subject, schema(f.First)), add(subject, schema(f.Evolved))
	again := add(subject, schema(f.First))
	_, err := client.CreateSchema(ctx, subject, schema(f.Incompatible))
	customer := add(f.Reference, schema(f.Customer))
	reference := sr.SchemaReference{Name: f.Reference, Subject: f.Reference, Version: 1}
	sale := add(sales, schema(f.Sale, reference))

	ids := []int{first, evolved, customer, sale}
	var byID []string
	for _, id := range ids {
		byID = append(byID, got(client.SchemaByID(ctx, id)).Schema)
	}
	var byVersion [][]any
	for _, version := range got(client.SubjectVersions(ctx, subject)) {
		found := got(client.SchemaByVersion(ctx, subject, version))
		byVersion = append(byVersion, []any{found.ID, found.Schema.Schema})
	}
	read := got(client.SchemaByVersion(ctx, sales, 1))
	var references [][]any
	for _, each := range read.References {
		references = append(references, []any{each.Name, each.Subject, each.Version})
	}
	return ids, map[string]any{
		"ids":        ids,
		"again":      again,
		"refused":    status(err),
		"by_id":      byID,
		"by_version": byVersion,
		"latest":     got(client.SchemaByVersion(ctx, subject, -1)).Version,
		"looked_up":  got(client.LookupSchema(ctx, subject, schema(f.First))).ID,
		"references": references,
		"sale":       read.ID,
	}
}

func (f format) write(client *sr.Client, ids []int, todo *registryJob) {
	var records []*kgo.Record
	add := func(topic string, id int, values []value) {
		serde := sr.NewSerde()
		f.know(client, serde, id)
		for _, each := range values {
			records = append(records, &kgo.Record{Topic: topic, Value: got(serde.Encode(each))})
		}
	}
	add(f.Topic, ids[0], todo.Orders)
	add(f.Topic, ids[1], todo.Noted)
	add(f.Topic+"-sales", ids[3], todo.Sales)
	got(produce(records, "none", true))
}

func (f format) read(client *sr.Client, topic string, count int) []any {
	serde := sr.NewSerde()
	var found []any
	for _, each := range consume(topic, 1, count, false) {
		var value any
		err := serde.Decode(each.Value, &value)
		if errors.Is(err, sr.ErrNotRegistered) {
			id, _, failed := serde.DecodeID(each.Value)
			must(failed)
			f.know(client, serde, id)
			err = serde.Decode(each.Value, &value)
		}
		must(err)
		found = append(found, value)
	}
	return found
}

// know teaches a serde the schema of an id, as the registry has it.
func (f format) know(client *sr.Client, serde *sr.Serde, id int) {
	asked := ctx
	if f.Type == sr.TypeProtobuf {
		asked = sr.WithParams(ctx, sr.Format("serialized"))
	}
	schema := got(client.SchemaByID(asked, id))
	referenced := map[string]string{}
	for _, each := range schema.References {
		referenced[each.Name] = got(client.SchemaByVersion(asked, each.Subject, each.Version)).Schema.Schema
	}
	options := []sr.EncodingOpt{}
	var found codec
	switch f.Type {
	case sr.TypeAvro:
		found = f.avro(schema, referenced)
	case sr.TypeProtobuf:
		found = ofProtobuf(schema, referenced)
		options = append(options, sr.Index(0))
	default:
		found = codec{json.Marshal, json.Unmarshal}
	}
	serde.Register(id, value{}, append(options, sr.EncodeFn(found.encode), sr.DecodeFn(found.decode))...)
}

// avro: Orders are read with the evolved schema.
func (f format) avro(schema sr.Schema, referenced map[string]string) codec {
	cache := &avro.SchemaCache{}
	for _, text := range referenced {
		got(cache.Parse(text))
	}
	writer := got(cache.Parse(schema.Schema))
	reader := writer
	if len(referenced) == 0 {
		reader = got(avro.Resolve(writer, got(avro.Parse(f.Evolved))))
	}
	encode := func(value any) ([]byte, error) { return writer.Encode(value) }
	decode := func(data []byte, value any) error {
		_, err := reader.Decode(data, value)
		return err
	}
	return codec{encode, decode}
}

func ofProtobuf(schema sr.Schema, referenced map[string]string) codec {
	known := &protoregistry.Files{}
	for name, serialized := range referenced {
		must(known.RegisterFile(file(name, serialized, known)))
	}
	message := file("schema.proto", schema.Schema, known).Messages().Get(0)
	encode := func(value any) ([]byte, error) {
		made := dynamicpb.NewMessage(message)
		must(protojson.Unmarshal(got(json.Marshal(value)), made))
		return proto.Marshal(made)
	}
	decode := func(data []byte, value any) error {
		made := dynamicpb.NewMessage(message)
		must(proto.Unmarshal(data, made))
		return json.Unmarshal(got(protojson.Marshal(made)), value)
	}
	return codec{encode, decode}
}

// file: of a FileDescriptorProto in base64, which does not tell its name.
func file(name, serialized string, known *protoregistry.Files) protoreflect.FileDescriptor {
	made := &descriptorpb.FileDescriptorProto{}
	must(proto.Unmarshal(got(base64.StdEncoding.DecodeString(serialized)), made))
	made.Name = &name
	return got(protodesc.NewFile(made, known))
}

// status: of an answer that refuses; 0: there is no error.
func status(err error) int {
	var answer *sr.ResponseError
	if err == nil {
		return 0
	}
	if !errors.As(err, &answer) {
		log.Fatal(err)
	}
	return answer.StatusCode
}

func srVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go/pkg/sr" {
			return module.Version
		}
	}
	return ""
}
