// The steps of ../README.md for clients of a registry, with Confluent's own Java client and Flink's Avro serializers on
// it, both in Flink's jar: java -cp CLASSES:JARS/* JavaRegistry BOOTSTRAP REGISTRY JOB.json

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroDeserializationSchema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroSerializationSchema;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaRegistry {
    static final int WAIT_MS = 20_000;
    static final int CACHED = 100;
    static final ObjectMapper JSON = new ObjectMapper();

    static String bootstrap;
    static String url;

    interface Write {
        byte[] bytes(JsonNode value) throws Exception;
    }

    interface Read {
        GenericRecord value(byte[] data) throws IOException;
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        url = args[1];
        JsonNode job = JSON.readTree(new File(args[2]));
        Map<String, Object> formats = new LinkedHashMap<>();
        for (JsonNode todo : job.get("formats")) {
            Map<String, Object> report = registered(todo);
            if (text(todo, "type").equals("AVRO"))
                avro(todo, job, report);
            formats.put(text(todo, "type"), report);
        }
        System.out.println(JSON.writeValueAsString(Map.of("client", "java Flink", "formats", formats)));
    }

    /** All formats: the client itself knows Avro alone, the part of it that sends requests takes any schema's text. */
    static Map<String, Object> registered(JsonNode todo) throws Exception {
        RestService rest = new RestService(url);
        String type = text(todo, "type");
        String subject = text(todo, "topic") + "-value";
        String sales = text(todo, "topic") + "-sales-value";
        List<SchemaReference> references = references(todo);
        int first = rest.registerSchema(text(todo, "first"), type, List.of(), subject).getId();
        int evolved = rest.registerSchema(text(todo, "evolved"), type, List.of(), subject).getId();
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("again", rest.registerSchema(text(todo, "first"), type, List.of(), subject).getId());
        report.put("refused", 0);
        try {
            rest.registerSchema(text(todo, "incompatible"), type, List.of(), subject);
        } catch (RestClientException refused) {
            report.put("refused", refused.getStatus());
        }
        int customer = rest.registerSchema(text(todo, "customer"), type, List.of(), text(todo, "reference")).getId();
        int sale = rest.registerSchema(text(todo, "sale"), type, references, sales).getId();

        List<Integer> ids = List.of(first, evolved, customer, sale);
        List<String> byId = new ArrayList<>();
        for (int id : ids)
            byId.add(rest.getId(id).getSchemaString());
        List<Object> byVersion = new ArrayList<>();
        for (int version : rest.getAllVersions(subject)) {
            var found = rest.getVersion(subject, version);
            byVersion.add(List.of(found.getId(), found.getSchema()));
        }
        var read = rest.getVersion(sales, 1);
        report.put("ids", ids);
        report.put("by_id", byId);
        report.put("by_version", byVersion);
        report.put("latest", rest.getLatestVersion(subject).getVersion());
        report.put("looked_up",
            rest.lookUpSubjectVersion(text(todo, "first"), type, List.of(), subject, false).getId());
        report.put("references", read.getReferences().stream()
            .map(each -> List.of(each.getName(), each.getSubject(), each.getVersion())).toList());
        report.put("sale", read.getId());
        return report;
    }

    /** Values: Flink's serializer writes Orders; it knows no references, so Sales get their id from the client. */
    static void avro(JsonNode todo, JsonNode job, Map<String, Object> report) throws Exception {
        String topic = text(todo, "topic");
        String subject = topic + "-value";
        var client = new CachedSchemaRegistryClient(url, CACHED);
        Map<String, String> customer = Map.of(text(todo, "reference"), text(todo, "customer"));
        AvroSchema sale = new AvroSchema(text(todo, "sale"), references(todo), customer, null);
        Schema evolved = new AvroSchema(text(todo, "evolved")).rawSchema();
        produce(topic, orders(subject, new AvroSchema(text(todo, "first")).rawSchema()), job.get("orders"));
        produce(topic, orders(subject, evolved), job.get("noted"));
        String sales = topic + "-sales";
        produce(sales, value -> framed(client.getId(sales + "-value", sale), sale, value), job.get("sales"));

        var ofOrders = ConfluentRegistryAvroDeserializationSchema.forGeneric(evolved, url);
        var ofSales = ConfluentRegistryAvroDeserializationSchema.forGeneric(sale.rawSchema(), url);
        report.put("orders", consume(topic, ofOrders::deserialize, job.get("orders").size() + job.get("noted").size()));
        report.put("sales", consume(sales, ofSales::deserialize, job.get("sales").size()));
    }

    static Write orders(String subject, Schema schema) {
        var serializer = ConfluentRegistryAvroSerializationSchema.forGeneric(subject, schema, url);
        return value -> serializer.serialize(record(schema, value));
    }

    static byte[] framed(int id, AvroSchema schema, JsonNode value) throws IOException {
        var out = new ByteArrayOutputStream();
        new DataOutputStream(out).writeByte(0);
        new DataOutputStream(out).writeInt(id);
        var encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(schema.rawSchema()).write(record(schema.rawSchema(), value), encoder);
        encoder.flush();
        return out.toByteArray();
    }

    static GenericRecord record(Schema schema, JsonNode value) {
        GenericRecord made = new GenericData.Record(schema);
        for (Schema.Field field : schema.getFields()) {
            JsonNode found = value.get(field.name());
            switch (field.schema().getType()) {
                case INT -> made.put(field.name(), found.intValue());
                case STRING -> made.put(field.name(), found.textValue());
                default -> made.put(field.name(), record(field.schema(), found));
            }
        }
        return made;
    }

    static void produce(String topic, Write write, JsonNode values) throws Exception {
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "linger.ms", 5);
        try (var producer = new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode value : values)
                producer.send(new ProducerRecord<>(topic, write.bytes(value)));
        }
    }

    static List<JsonNode> consume(String topic, Read read, int count) throws Exception {
        List<JsonNode> found = new ArrayList<>();
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long end = System.nanoTime() + WAIT_MS * 1_000_000L;
            while (found.size() < count) {
                if (System.nanoTime() > end)
                    throw new IllegalStateException("read " + found.size() + " of " + count + " records of " + topic);
                for (var each : consumer.poll(Duration.ofMillis(100)))
                    found.add(JSON.readTree(read.value(each.value()).toString()));
            }
        }
        return found;
    }

    static List<SchemaReference> references(JsonNode todo) {
        return List.of(new SchemaReference(text(todo, "reference"), text(todo, "reference"), 1));
    }

    static String text(JsonNode todo, String name) {
        return todo.get(name).asText();
    }
}
