import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.text.SimpleDateFormat;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter;
import org.apache.kafka.connect.runtime.errors.LogReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * What Kafka's converters, transforms and predicates make of data: a line with a question, a line with the answers,
 * JSON, whose form is on top of tests/connect/wire.py.
 */
@SuppressWarnings({"unchecked", "rawtypes", "deprecation"})
public class ConnectOracle {
    static final ObjectMapper JSON =
        new ObjectMapper().enable(JsonWriteFeature.ESCAPE_NON_ASCII.mappedFeature());
    static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    interface Asked {
        JsonNode answer() throws Exception;
    }

    public static void main(String[] ignored) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Locale.setDefault(Locale.US);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            System.out.println(JSON.writeValueAsString(tried(() -> answers(question))));
            System.out.flush();
        }
    }

    static JsonNode tried(Asked asked) {
        try {
            return asked.answer();
        } catch (Throwable error) {
            if (System.getenv("ORACLE_TRACE") != null)
                error.printStackTrace();
            ObjectNode told = NODES.objectNode();
            told.putArray("error").add(error.getClass().getName()).add(error.getMessage());
            return told;
        }
    }

    static JsonNode answers(JsonNode question) throws Exception {
        Map<String, Object> config = new HashMap<>();
        question.path("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().textValue()));
        Object made = null;
        if (question.has("class")) {
            made = Class.forName(question.get("class").asText()).getDeclaredConstructor().newInstance();
            ((Configurable) (made instanceof Configurable ? made : new Configured(made))).configure(config);
        }
        ArrayNode answers = NODES.arrayNode();
        for (JsonNode each : question.get("cases")) {
            Object asked = made;
            answers.add(tried(() -> answer(question, asked, each)));
        }
        return answers;
    }

    /** A converter, whose configure takes whether it is for keys. */
    record Configured(Object converter) implements Configurable {
        @Override
        public void configure(Map<String, ?> config) {
            ((Converter) converter).configure(config, "key".equals(config.get("converter.type")));
        }
    }

    static JsonNode answer(JsonNode question, Object made, JsonNode each) throws Exception {
        switch (question.get("ask").asText()) {
            case "from": {
                Schema schema = schema(each.get(0));
                return bytes(((Converter) made).fromConnectData("t", schema, value(each.get(1))));
            }
            case "to":
                return schemaAndValue(((Converter) made).toConnectData("t", unhex(each)));
            case "from_header": {
                Schema schema = schema(each.get(0));
                return bytes(((HeaderConverter) made).fromConnectHeader("t", "h", schema, value(each.get(1))));
            }
            case "to_header":
                return schemaAndValue(((HeaderConverter) made).toConnectHeader("t", "h", unhex(each)));
            case "parse_header":
                return schemaAndValue(Values.parseString(each.textValue()));
            case "transform": {
                ConnectRecord record = ((Transformation) made).apply(record(each));
                return record == null ? NODES.nullNode() : record(record);
            }
            case "test":
                return NODES.booleanNode(((Predicate) made).test(record(each)));
            case "format": {
                SimpleDateFormat format = new SimpleDateFormat(question.get("pattern").asText());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                return NODES.textNode(format.format(new java.util.Date(each.longValue())));
            }
            case "parse_date": {
                SimpleDateFormat format = new SimpleDateFormat(question.get("pattern").asText());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                return NODES.numberNode(format.parse(each.asText()).getTime());
            }
            case "dead_letter":
                return deadLetter(each);
            case "log_line":
                return logLine(each);
            default:
                throw new IllegalArgumentException("no such question");
        }
    }

    // failures

    static Object made(Class<?> type) throws Exception {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(type);
    }

    static ConsumerRecord<byte[], byte[]> message(JsonNode of) {
        RecordHeaders headers = new RecordHeaders();
        for (JsonNode header : of.get("headers"))
            headers.add(header.get(0).asText(), unhex(header.get(1)));
        return new ConsumerRecord<>(of.get("topic").asText(), of.get("partition").intValue(), of.get("offset").longValue(),
            of.get("timestamp").isNull() ? -1 : of.get("timestamp").longValue(),
            of.get("timestamp").isNull() ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, 0, 0,
            unhex(of.get("key")), unhex(of.get("value")), headers, Optional.empty());
    }

    static <T> ProcessingContext<T> context(T original, JsonNode of) throws Exception {
        ProcessingContext<T> context = new ProcessingContext<>(original);
        context.currentContext(Stage.valueOf(of.get("stage").asText()), Class.forName(of.get("class").asText()));
        context.error((Throwable) Class.forName(of.get("error").get(0).asText()).getConstructor(String.class)
            .newInstance(of.get("error").get(1).textValue()));
        return context;
    }

    static JsonNode deadLetter(JsonNode of) throws Exception {
        Object reporter = made(DeadLetterQueueReporter.class);
        Field id = DeadLetterQueueReporter.class.getDeclaredField("connectorTaskId");
        id.setAccessible(true);
        id.set(reporter, new ConnectorTaskId(of.get("connector").asText(), of.get("task").intValue()));
        ConsumerRecord<byte[], byte[]> message = message(of.get("message"));
        ProducerRecord<byte[], byte[]> sent = new ProducerRecord<>("dead", null, message.key(), message.value(), message.headers());
        Method populate = DeadLetterQueueReporter.class.getDeclaredMethod("populateContextHeaders", ProducerRecord.class,
            ProcessingContext.class);
        populate.setAccessible(true);
        populate.invoke(reporter, sent, context(message, of));
        ArrayNode headers = NODES.arrayNode();
        for (org.apache.kafka.common.header.Header header : sent.headers()) {
            byte[] value = header.value();
            if (header.key().endsWith("stacktrace"))
                value = new String(value, UTF_8).split("\\n\\tat ")[0].getBytes(UTF_8);
            headers.addArray().add(header.key()).add(bytes(value));
        }
        return headers;
    }

    static JsonNode logLine(JsonNode of) throws Exception {
        boolean isSource = of.get("message").has("value") && of.get("message").get("value").isArray();
        Object original = isSource ? record(of.get("message")) : message(of.get("message"));
        Object reporter = made(isSource ? LogReporter.Source.class : LogReporter.Sink.class);
        Method text = LogReporter.class.getDeclaredMethod("toString", ProcessingContext.class, boolean.class);
        text.setAccessible(true);
        return NODES.textNode((String) text.invoke(reporter, context(original, of), of.get("details").booleanValue()));
    }

    // records

    static ConnectRecord record(JsonNode of) {
        String topic = of.get("topic").textValue();
        Integer partition = of.get("partition").isNull() ? null : of.get("partition").intValue();
        Schema keySchema = schema(of.get("key").get(0));
        Object key = value(of.get("key").get(1));
        Schema valueSchema = schema(of.get("value").get(0));
        Object value = value(of.get("value").get(1));
        Long timestamp = of.get("timestamp").isNull() ? null : of.get("timestamp").longValue();
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : of.get("headers"))
            headers.add(each.get(0).asText(), new SchemaAndValue(schema(each.get(1)), value(each.get(2))));
        if (of.has("offset"))
            return new SinkRecord(topic, partition == null ? 0 : partition, keySchema, key, valueSchema, value,
                of.get("offset").longValue(), timestamp, TimestampType.CREATE_TIME,
                headers);
        return new SourceRecord(Map.of("file", "a"), Map.of("position", 7L), topic, partition, keySchema, key,
            valueSchema, value, timestamp, headers);
    }

    static ObjectNode record(ConnectRecord record) {
        ObjectNode made = NODES.objectNode();
        made.put("topic", record.topic());
        made.put("partition", record.kafkaPartition());
        made.set("key", NODES.arrayNode().add(schema(record.keySchema())).add(value(record.key())));
        made.set("value", NODES.arrayNode().add(schema(record.valueSchema())).add(value(record.value())));
        made.put("timestamp", record.timestamp());
        ArrayNode headers = made.putArray("headers");
        for (Object each : record.headers()) {
            Header header = (Header) each;
            headers.addArray().add(header.key()).add(schema(header.schema())).add(value(header.value()));
        }
        if (record instanceof SinkRecord)
            made.put("offset", ((SinkRecord) record).kafkaOffset());
        return made;
    }

    // schemas

    static Schema schema(JsonNode of) {
        if (of.isNull())
            return null;
        SchemaBuilder builder;
        Schema.Type type = Schema.Type.valueOf(of.get("type").asText());
        if (type == Schema.Type.ARRAY)
            builder = SchemaBuilder.array(schema(of.get("value")));
        else if (type == Schema.Type.MAP)
            builder = SchemaBuilder.map(schema(of.get("key")), schema(of.get("value")));
        else
            builder = SchemaBuilder.type(type);
        for (JsonNode field : of.path("fields"))
            builder.field(field.get(0).asText(), schema(field.get(1)));
        if (of.has("optional"))
            builder.optional();
        if (of.has("name"))
            builder.name(of.get("name").asText());
        if (of.has("version"))
            builder.version(of.get("version").intValue());
        if (of.has("doc"))
            builder.doc(of.get("doc").asText());
        of.path("parameters").fields().forEachRemaining(e -> builder.parameter(e.getKey(), e.getValue().asText()));
        if (of.has("default")) {
            JsonNode value = of.get("default");
            if (value.get(0).asText().equals("struct") && value.get(1).isNull())
                builder.defaultValue(struct(builder, value));
            else
                builder.defaultValue(value(value));
        }
        return builder.build();
    }

    static JsonNode schema(Schema schema) {
        if (schema == null)
            return NODES.nullNode();
        ObjectNode made = NODES.objectNode();
        made.put("type", schema.type().name());
        if (schema.type() == Schema.Type.MAP)
            made.set("key", schema(schema.keySchema()));
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY)
            made.set("value", schema(schema.valueSchema()));
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = made.putArray("fields");
            for (org.apache.kafka.connect.data.Field field : schema.fields())
                fields.addArray().add(field.name()).add(schema(field.schema()));
        }
        if (schema.isOptional())
            made.put("optional", true);
        if (schema.name() != null)
            made.put("name", schema.name());
        if (schema.version() != null)
            made.put("version", schema.version());
        if (schema.doc() != null)
            made.put("doc", schema.doc());
        if (schema.parameters() != null) {
            ObjectNode parameters = made.putObject("parameters");
            schema.parameters().forEach(parameters::put);
        }
        if (schema.defaultValue() != null)
            made.set("default", value(schema.defaultValue()));
        return made;
    }

    static JsonNode schemaAndValue(SchemaAndValue made) {
        if (made == null)
            return NODES.arrayNode().addNull().addNull();
        return NODES.arrayNode().add(schema(made.schema())).add(value(made.value()));
    }

    // values

    static Struct struct(Schema schema, JsonNode of) {
        Struct struct = new Struct(schema);
        for (org.apache.kafka.connect.data.Field field : schema.fields()) {
            Object value = value(of.get(2).get(field.index()));
            if (value != null)
                struct.put(field, value);
        }
        return struct;
    }

    static Object value(JsonNode of) {
        if (of.isNull())
            return null;
        JsonNode value = of.get(1);
        switch (of.get(0).asText()) {
            case "bool": return value.booleanValue();
            case "i8": return (byte) value.intValue();
            case "i16": return (short) value.intValue();
            case "i32": return value.intValue();
            case "i64": return value.longValue();
            case "f32": return Float.intBitsToFloat(Integer.parseUnsignedInt(value.asText(), 16));
            case "f64": return Double.longBitsToDouble(Long.parseUnsignedLong(value.asText(), 16));
            case "str": return value.asText();
            case "bytes": return unhex(value);
            case "date": return new java.util.Date(value.longValue());
            case "dec": return new BigDecimal(new BigInteger(value.asText()), of.get(2).intValue());
            case "list": {
                List<Object> list = new ArrayList<>();
                value.forEach(each -> list.add(value(each)));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new HashMap<>();
                value.forEach(each -> map.put(value(each.get(0)), value(each.get(1))));
                return map;
            }
            case "struct": return struct(schema(value), of);
            default: throw new IllegalArgumentException(of.toString());
        }
    }

    static JsonNode value(Object value) {
        if (value == null)
            return NODES.nullNode();
        ArrayNode made = NODES.arrayNode();
        if (value instanceof Boolean)
            return made.add("bool").add((Boolean) value);
        if (value instanceof Byte)
            return made.add("i8").add((Byte) value);
        if (value instanceof Short)
            return made.add("i16").add((Short) value);
        if (value instanceof Integer)
            return made.add("i32").add((Integer) value);
        if (value instanceof Long)
            return made.add("i64").add((Long) value);
        if (value instanceof Float)
            return made.add("f32").add(String.format("%08x", Float.floatToRawIntBits((Float) value)));
        if (value instanceof Double)
            return made.add("f64").add(String.format("%016x", Double.doubleToRawLongBits((Double) value)));
        if (value instanceof String)
            return made.add("str").add((String) value);
        if (value instanceof byte[])
            return made.add("bytes").add(HexFormat.of().formatHex((byte[]) value));
        if (value instanceof ByteBuffer)
            return made.add("bytes").add(HexFormat.of().formatHex(((ByteBuffer) value).array()));
        if (value instanceof java.util.Date)
            return made.add("date").add(((java.util.Date) value).getTime());
        if (value instanceof BigDecimal)
            return made.add("dec").add(((BigDecimal) value).unscaledValue().toString()).add(((BigDecimal) value).scale());
        if (value instanceof List) {
            ArrayNode list = made.add("list").addArray();
            ((List<Object>) value).forEach(each -> list.add(value(each)));
            return made;
        }
        if (value instanceof Map) {
            ArrayNode map = made.add("map").addArray();
            ((Map<Object, Object>) value).forEach((k, v) -> map.addArray().add(value(k)).add(value(v)));
            return made;
        }
        Struct struct = (Struct) value;
        made.add("struct").add(struct.schema() instanceof SchemaBuilder ? NODES.nullNode() : schema(struct.schema()));
        ArrayNode values = made.addArray();
        for (org.apache.kafka.connect.data.Field field : struct.schema().fields())
            values.add(value(struct.getWithoutDefault(field.name())));
        return made;
    }

    static byte[] unhex(JsonNode of) {
        return of.isNull() ? null : HexFormat.of().parseHex(of.asText());
    }

    static JsonNode bytes(byte[] bytes) {
        return bytes == null ? NODES.nullNode() : NODES.textNode(HexFormat.of().formatHex(bytes));
    }
}
