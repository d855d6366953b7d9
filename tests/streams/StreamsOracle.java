import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.TestRecord;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * What Kafka Streams makes of a program: a line with the program and its input, a line with the topology's text, the
 * records sent to each topic, and the stores, JSON. Programs are those of tests/streams/programs.py, which does the
 * same with kcli.streams; the functions that they name are defined in both.
 */
@SuppressWarnings({"unchecked", "rawtypes", "deprecation"})
public class StreamsOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = new StreamsOracle().answer(JSON.readTree(line));
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null)
                    cause = cause.getCause();
                answer = Map.of("error", error + " <- " + cause);
                if (System.getenv("ORACLE_TRACE") != null)
                    error.printStackTrace();
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    final StreamsBuilder builder = new StreamsBuilder();
    final Map<Integer, Object> made = new LinkedHashMap<>();
    final List<String> seen = new ArrayList<>();
    final Properties given = new Properties();

    Object answer(JsonNode question) throws Exception {
        for (JsonNode step : question.get("steps"))
            made.put(step.get("id").asInt(), new Step(step).make());
        Topology topology = builder.build();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("describe", topology.describe().toString());
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.putAll(given);
        config.put(StreamsConfig.STATE_DIR_CONFIG, question.get("state_dir").asText());
        long interval = question.get("emit_interval_ms").asLong();
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, interval);
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, interval);
        if (question.get("in_memory").asBoolean())
            config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0))) {
            ByteArraySerializer bytes = new ByteArraySerializer();
            for (JsonNode input : question.get("inputs")) {
                if (input.has("wall")) {
                    driver.advanceWallClockTime(Duration.ofMillis(input.get("wall").asLong()));
                    continue;
                }
                RecordHeaders headers = new RecordHeaders();
                for (JsonNode header : input.get("headers"))
                    headers.add(header.get(0).asText(), raw(header.get(1)));
                driver.createInputTopic(input.get("topic").asText(), bytes, bytes).pipeInput(
                    new TestRecord<>(raw(input.get("key")), raw(input.get("value")), headers, input.get("timestamp").asLong()));
            }
            Map<String, Object> outputs = new TreeMap<>();
            for (String topic : driver.producedTopicNames()) {
                List<Object> records = new ArrayList<>();
                ByteArrayDeserializer plain = new ByteArrayDeserializer();
                for (TestRecord<byte[], byte[]> record : driver.createOutputTopic(topic, plain, plain).readRecordsToList()) {
                    List<Object> headers = new ArrayList<>();
                    for (Header header : record.headers())
                        headers.add(Arrays.asList(header.key(), OWN_WORDS.contains(header.key()) ? "*" : text(header.value())));
                    List<Object> row = new ArrayList<>();
                    row.add(text(record.key()));
                    row.add(text(record.value()));
                    row.add(record.timestamp());
                    row.add(headers);
                    records.add(row);
                }
                outputs.put(topic, records);
            }
            answer.put("outputs", outputs);
            answer.put("stores", stores(driver, question.get("inputs")));
            answer.put("seen", seen);
        }
        return answer;
    }

    static final List<String> OWN_WORDS =
        List.of("__streams.errors.exception", "__streams.errors.message", "__streams.errors.stacktrace");

    /** Leaves out what a sink cannot serialize. */
    public static class ContinueProduction implements ProductionExceptionHandler {
        @Override
        public Response handleError(ErrorHandlerContext context, ProducerRecord<byte[], byte[]> record, Exception error) {
            return Response.resume();
        }

        @Override
        public Response handleSerializationError(
            ErrorHandlerContext context, ProducerRecord record, Exception error, SerializationExceptionOrigin origin) {
            return Response.resume();
        }

        @Override
        public void configure(Map<String, ?> ignored) {
        }
    }

    /** Text of at most two letters. */
    static Serde<String> shortText() {
        return Serdes.serdeFrom(
            (topic, text) -> text == null ? null : atMostTwo(text).getBytes(UTF_8),
            (topic, data) -> data == null ? null : atMostTwo(new String(data, UTF_8)));
    }

    static String atMostTwo(String text) {
        if (text.length() > 2)
            throw new SerializationException(text);
        return text;
    }

    static final List<String> KEYS = List.of("a", "b", "c", "d", "ab", "k");

    /** What a versioned store has as of the times of all inputs, and last. */
    static List<Object> versions(VersionedKeyValueStore<Object, Object> store, JsonNode inputs) {
        TreeSet<Long> times = new TreeSet<>();
        for (JsonNode input : inputs)
            if (input.has("timestamp"))
                times.add(input.get("timestamp").asLong());
        List<Object> rows = new ArrayList<>();
        for (String key : KEYS) {
            for (long time : times)
                if (store.get(key, time) != null)
                    rows.add(List.of(key + "@" + time, version(store.get(key, time))));
            if (store.get(key) != null)
                rows.add(List.of(key + "@last", version(store.get(key))));
        }
        return rows;
    }

    static String version(VersionedRecord<?> record) {
        return record == null ? "-" : record.value() + "@" + record.timestamp();
    }

    static Object stores(TopologyTestDriver driver, JsonNode inputs) {
        Map<String, Object> stores = new TreeMap<>();
        for (Map.Entry<String, StateStore> each : driver.getAllStateStores().entrySet()) {
            List<Object> rows = new ArrayList<>();
            if (each.getValue() == null) {
                continue;
            } else if (each.getValue() instanceof VersionedKeyValueStore store) {
                rows.addAll(versions(store, inputs));
            } else if (each.getValue() instanceof KeyValueStore store) {
                if (each.getKey().contains("SUBSCRIPTION-STATE-STORE") || each.getKey().endsWith("-subscription-store")
                    || each.getKey().contains("-shared-join") || each.getKey().contains("OUTERSHARED"))
                    continue;
                try (KeyValueIterator iterator = store.all()) {
                    iterator.forEachRemaining(row -> rows.add(row(((KeyValue) row).key, ((KeyValue) row).value)));
                }
            } else if (each.getValue() instanceof WindowStore store) {
                try (KeyValueIterator iterator = store.all()) {
                    iterator.forEachRemaining(row -> rows.add(row(((KeyValue) row).key, ((KeyValue) row).value)));
                }
            } else if (each.getValue() instanceof SessionStore store) {
                try (KeyValueIterator iterator = store.fetch(null, null)) {
                    iterator.forEachRemaining(row -> rows.add(row(((KeyValue) row).key, ((KeyValue) row).value)));
                }
            } else {
                continue;
            }
            stores.put(each.getKey(), rows);
        }
        return stores;
    }

    static Object row(Object key, Object value) {
        if (value instanceof ValueAndTimestamp<?> both)
            return List.of(show(key), show(both.value()), both.timestamp());
        if (value instanceof ValueTimestampHeaders<?> all)
            return List.of(show(key), show(all.value()));
        return List.of(show(key), show(value));
    }

    static byte[] raw(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(ISO_8859_1);
    }

    static String text(byte[] raw) {
        return raw == null ? null : new String(raw, ISO_8859_1);
    }

    static String show(Object value) {
        return value instanceof byte[] raw ? text(raw) : String.valueOf(value);
    }

    // functions

    static String string(Object value) {
        return String.valueOf(value);
    }

    static String first(Object value) {
        String text = value == null ? "" : string(value);
        return text.isEmpty() ? null : text.substring(0, 1);
    }

    static boolean test(String name, Object key, Object value) {
        return switch (name) {
            case "short" -> value != null && string(value).length() <= 2;
            case "key_a" -> "a".equals(key);
            case "has_value" -> value != null;
            case "has_key" -> key != null;
            case "even" -> value instanceof Number number && number.longValue() % 2 == 0;
            case "small" -> value instanceof Number number && number.longValue() <= 2;
            case "none" -> false;
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Object mapValue(String name, Object value) {
        return switch (name) {
            case "upper" -> value == null ? null : string(value).toUpperCase();
            case "length" -> value == null ? null : (long) string(value).length();
            case "double" -> value == null ? null : string(value) + value;
            case "string" -> value == null ? null : string(value);
            case "long_only" -> value == null || string(value).length() < 3 ? null : value;
            case "first" -> first(value);
            case "fails" -> atMostTwo(string(value));
            case "negated" -> value instanceof Long number ? -number : value;
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Object newKey(String name, Object key, Object value) {
        return switch (name) {
            case "first" -> first(value);
            case "value" -> value;
            case "key" -> key;
            case "plain" -> key instanceof Windowed<?> windowed ? windowed.key() : key;
            case "constant" -> "k";
            case "start" -> key + "";
            default -> throw new IllegalArgumentException(name);
        };
    }

    static KeyValue newPair(String name, Object key, Object value) {
        return switch (name) {
            case "swap" -> KeyValue.pair(value, key);
            case "by_first" -> KeyValue.pair(first(value), value);
            case "by_value" -> KeyValue.pair(value == null ? null : string(value), key);
            case "plain_sum" -> KeyValue.pair(((Windowed<?>) key).key(), value);
            case "constant" -> KeyValue.pair("k", value);
            default -> throw new IllegalArgumentException(name);
        };
    }

    static List<Object> letters(Object value) {
        List<Object> letters = new ArrayList<>();
        for (char letter : (value == null ? "" : string(value)).toCharArray())
            letters.add(String.valueOf(letter));
        return letters;
    }

    static Object two(String name, Object one, Object other) {
        return switch (name) {
            case "pair" -> one + "," + other;
            case "concat" -> one + "+" + other;
            case "minus" -> one + "-" + other;
            case "max" -> other == null || string(one).compareTo(string(other)) >= 0 ? one : other;
            case "sum" -> (one == null ? 0L : (Long) one) + (other == null ? 0L : (Long) other);
            case "difference" -> (one == null ? 0L : (Long) one) - (other == null ? 0L : (Long) other);
            case "left" -> one;
            case "drop_long" -> (one + "" + other).length() > 6 ? null : one + "" + other;
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Object initial(String name) {
        return switch (name) {
            case "empty" -> "";
            case "zero" -> 0L;
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Object aggregate(String name, Object key, Object value, Object aggregate) {
        return switch (name) {
            case "append" -> aggregate + string(value);
            case "remove" -> aggregate + "!" + value;
            case "lengths" -> (Long) aggregate + (value == null ? 0 : string(value).length());
            case "lengths_off" -> (Long) aggregate - (value == null ? 0 : string(value).length());
            case "add" -> (Long) aggregate + (Long) value;
            case "null_at_3" -> string(aggregate).length() >= 3 ? null : aggregate + first(value);
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Serde serde(String name) {
        return switch (name) {
            case "string" -> Serdes.String();
            case "long" -> Serdes.Long();
            case "integer" -> Serdes.Integer();
            case "double" -> Serdes.Double();
            case "bytes" -> Serdes.ByteArray();
            case "short" -> shortText();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** One step of a program: the method `call` of what step `on` made, or of the builder. */
    class Step {
        final JsonNode step;
        final JsonNode about;
        final JsonNode given;

        Step(JsonNode step) {
            this.step = step;
            about = step.get("kw");
            given = step.get("args");
        }

        String text(int i) {
            return given.get(i).asText();
        }

        Object other(int i) {
            return made.get(given.get(i).get("step").asInt());
        }

        boolean has(String name) {
            return about.has(name);
        }

        String text(String name) {
            return has(name) ? about.get(name).asText() : null;
        }

        Duration ms(String name) {
            return Duration.ofMillis(has(name) ? about.get(name).asLong() : 0);
        }

        Serde serdeOf(String name) {
            return has(name) ? serde(text(name)) : null;
        }

        Named named() {
            return Named.as(text("name"));
        }

        Consumed consumed() {
            Consumed consumed = Consumed.with(serdeOf("key_serde"), serdeOf("value_serde"));
            if (has("name"))
                consumed = consumed.withName(text("name"));
            if (has("times"))
                consumed = consumed.withTimestampExtractor((record, partitionTime) -> switch (text("times")) {
                    case "length" -> record.value() == null ? -1 : 10L * string(record.value()).length();
                    case "never_back" -> Math.max(record.timestamp(), partitionTime);
                    default -> throw new IllegalArgumentException(text("times"));
                });
            return consumed;
        }

        boolean hasMaterialized() {
            return has("store_name") || has("key_serde") || has("value_serde") || has("logging") || has("retention");
        }

        /** The store of a table: versioned, with a name, or neither. */
        Materialized stored() {
            if (has("history"))
                return Materialized.as(Stores.persistentVersionedKeyValueStore(text("store_name"), ms("history"), Duration.ofMillis(7)));
            return has("store_name") ? Materialized.as(text("store_name")) : Materialized.with(null, null);
        }

        Materialized materialized() {
            Materialized materialized = stored();
            if (has("key_serde"))
                materialized.withKeySerde(serdeOf("key_serde"));
            if (has("value_serde"))
                materialized.withValueSerde(serdeOf("value_serde"));
            if (has("logging") && !about.get("logging").asBoolean())
                materialized.withLoggingDisabled();
            if (has("retention"))
                materialized.withRetention(ms("retention"));
            return materialized;
        }

        Object make() {
            String call = step.get("call").asText();
            Object on = step.get("on").isNull() ? null : made.get(step.get("on").asInt());
            if (on == null)
                return ofBuilder(call);
            if (on instanceof KStream stream)
                return ofStream(stream, call);
            if (on instanceof KTable table)
                return ofTable(table, call);
            if (on instanceof KGroupedStream grouped)
                return ofGroupedStream(grouped, call);
            if (on instanceof CogroupedKStream || on instanceof TimeWindowedCogroupedKStream || on instanceof SessionWindowedCogroupedKStream)
                return ofCogrouped(on, call);
            if (on instanceof TimeWindowedKStream windowed)
                return ofWindowed(windowed, call);
            if (on instanceof SessionWindowedKStream sessions)
                return ofSessions(sessions, call);
            if (on instanceof KGroupedTable grouped)
                return ofGroupedTable(grouped, call);
            if (on instanceof BranchedKStream branches)
                return ofBranches(branches, call);
            if (on instanceof Map branches)
                return branches.get(text(0));
            throw new IllegalArgumentException(call);
        }

        Object ofBuilder(String call) {
            switch (call) {
                case "config":
                    StreamsOracle.this.given.put(text(0), text(1).equals("continue") ? ContinueProduction.class : text(1));
                    return call;
                case "stream": {
                    List<String> topics = new ArrayList<>();
                    given.forEach(topic -> topics.add(topic.asText()));
                    return builder.stream(topics, consumed());
                }
                case "table":
                    if (has("store_name") || has("logging")) {
                        Materialized materialized = stored();
                        if (has("logging"))
                            materialized.withLoggingDisabled();
                        return builder.table(text(0), consumed(), materialized);
                    }
                    return builder.table(text(0), consumed());
                case "global_table":
                    return has("store_name")
                        ? builder.globalTable(text(0), consumed(), Materialized.as(text("store_name")))
                        : builder.globalTable(text(0), consumed());
                case "key_value_store":
                    builder.addStateStore(Stores.keyValueStoreBuilder(
                        Stores.inMemoryKeyValueStore(text(0)), serdeOf("key_serde"), serdeOf("value_serde")));
                    return text(0);
                case "versioned_store":
                    builder.addStateStore(Stores.versionedKeyValueStoreBuilder(
                        Stores.persistentVersionedKeyValueStore(text(0), ms("history"), Duration.ofMillis(7)),
                        serdeOf("key_serde"), serdeOf("value_serde")));
                    return text(0);
                case "window_store":
                    builder.addStateStore(Stores.windowStoreBuilder(
                        Stores.inMemoryWindowStore(text(0), ms("retention"), ms("size"), has("duplicates")),
                        serdeOf("key_serde"), serdeOf("value_serde")));
                    return text(0);
                case "session_store":
                    builder.addStateStore(Stores.sessionStoreBuilder(
                        Stores.inMemorySessionStore(text(0), ms("retention")), serdeOf("key_serde"), serdeOf("value_serde")));
                    return text(0);
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Object ofStream(KStream stream, String call) {
            switch (call) {
                case "filter": {
                    Predicate predicate = (k, v) -> test(text(0), k, v);
                    return has("name") ? stream.filter(predicate, named()) : stream.filter(predicate);
                }
                case "filter_not": {
                    Predicate predicate = (k, v) -> test(text(0), k, v);
                    return has("name") ? stream.filterNot(predicate, named()) : stream.filterNot(predicate);
                }
                case "map": {
                    KeyValueMapper mapper = (k, v) -> newPair(text(0), k, v);
                    return has("name") ? stream.map(mapper, named()) : stream.map(mapper);
                }
                case "map_values": {
                    ValueMapper mapper = v -> mapValue(text(0), v);
                    return has("name") ? stream.mapValues(mapper, named()) : stream.mapValues(mapper);
                }
                case "flat_map": {
                    KeyValueMapper mapper = (k, v) -> {
                        List<Object> pairs = new ArrayList<>();
                        letters(v).forEach(letter -> pairs.add(KeyValue.pair(letter, v)));
                        return pairs;
                    };
                    return has("name") ? stream.flatMap(mapper, named()) : stream.flatMap(mapper);
                }
                case "flat_map_values": {
                    ValueMapper mapper = v -> letters(v);
                    return has("name") ? stream.flatMapValues(mapper, named()) : stream.flatMapValues(mapper);
                }
                case "select_key": {
                    KeyValueMapper mapper = (k, v) -> newKey(text(0), k, v);
                    return has("name") ? stream.selectKey(mapper, named()) : stream.selectKey(mapper);
                }
                case "peek": {
                    ForeachAction action = (k, v) -> seen.add(k + "=" + v);
                    return has("name") ? stream.peek(action, named()) : stream.peek(action);
                }
                case "foreach": {
                    ForeachAction action = (k, v) -> seen.add(k + "=" + v);
                    if (has("name"))
                        stream.foreach(action, named());
                    else
                        stream.foreach(action);
                    return stream;
                }
                case "split":
                    return has("name") ? stream.split(named()) : stream.split();
                case "merge":
                    return has("name") ? stream.merge((KStream) other(0), named()) : stream.merge((KStream) other(0));
                case "to": {
                    Produced produced = Produced.with(serdeOf("key_serde"), serdeOf("value_serde"));
                    if (has("name"))
                        produced = produced.withName(text("name"));
                    stream.to(text(0), produced);
                    return stream;
                }
                case "repartition": {
                    Repartitioned repartitioned = Repartitioned.with(serdeOf("key_serde"), serdeOf("value_serde"));
                    if (has("number_of_partitions"))
                        repartitioned = repartitioned.withNumberOfPartitions(about.get("number_of_partitions").asInt());
                    return stream.repartition(has("name") ? repartitioned.withName(text("name")) : repartitioned);
                }
                case "to_table":
                    if (hasMaterialized())
                        return has("name") ? stream.toTable(named(), materialized()) : stream.toTable(materialized());
                    return has("name") ? stream.toTable(named()) : stream.toTable();
                case "group_by_key": {
                    if (!has("name") && !has("key_serde") && !has("value_serde"))
                        return stream.groupByKey();
                    return stream.groupByKey(grouped());
                }
                case "group_by": {
                    KeyValueMapper mapper = (k, v) -> newKey(text(0), k, v);
                    if (!has("name") && !has("key_serde") && !has("value_serde"))
                        return stream.groupBy(mapper);
                    return stream.groupBy(mapper, grouped());
                }
                case "process":
                case "process_values": {
                    String[] stores = new String[given.size() - 1];
                    for (int i = 0; i < stores.length; i++)
                        stores[i] = text(i + 1);
                    if (call.equals("process")) {
                        ProcessorSupplier supplier = () -> processor(text(0), stores);
                        return has("name") ? stream.process(supplier, named(), stores) : stream.process(supplier, stores);
                    }
                    FixedKeyProcessorSupplier supplier = () -> fixedKeyProcessor(text(0), stores);
                    return has("name") ? stream.processValues(supplier, named(), stores) : stream.processValues(supplier, stores);
                }
                case "join":
                case "left_join":
                case "outer_join":
                    return joined(stream, call);
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Grouped grouped() {
            Grouped grouped = Grouped.with(serdeOf("key_serde"), serdeOf("value_serde"));
            return has("name") ? grouped.withName(text("name")) : grouped;
        }

        Object joined(KStream stream, String call) {
            ValueJoiner joiner = (one, two) -> two(text(1), one, two);
            Object other = other(0);
            if (other instanceof GlobalKTable table) {
                KeyValueMapper selector = (k, v) -> newKey(text("key_selector"), k, v);
                if (call.equals("join"))
                    return has("name") ? stream.join(table, selector, joiner, named()) : stream.join(table, selector, joiner);
                return has("name") ? stream.leftJoin(table, selector, joiner, named()) : stream.leftJoin(table, selector, joiner);
            }
            if (other instanceof KTable table) {
                Joined joined = Joined.with(serdeOf("key_serde"), serdeOf("value_serde"), null);
                if (has("name"))
                    joined = joined.withName(text("name"));
                if (has("grace"))
                    joined = joined.withGracePeriod(ms("grace"));
                return call.equals("join") ? stream.join(table, joiner, joined) : stream.leftJoin(table, joiner, joined);
            }
            JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(ms("within"), ms("grace"));
            if (has("before"))
                windows = windows.before(ms("before"));
            if (has("after"))
                windows = windows.after(ms("after"));
            StreamJoined joined = StreamJoined.with(serdeOf("key_serde"), serdeOf("value_serde"), serdeOf("other_value_serde"));
            if (has("name"))
                joined = joined.withName(text("name"));
            if (has("store_name"))
                joined = joined.withStoreName(text("store_name"));
            return switch (call) {
                case "join" -> stream.join((KStream) other, joiner, windows, joined);
                case "left_join" -> stream.leftJoin((KStream) other, joiner, windows, joined);
                default -> stream.outerJoin((KStream) other, joiner, windows, joined);
            };
        }

        Object ofTable(KTable table, String call) {
            switch (call) {
                case "filter":
                case "filter_not": {
                    Predicate predicate = (k, v) -> test(text(0), k, v);
                    boolean keep = call.equals("filter");
                    if (hasMaterialized()) {
                        Materialized materialized = materialized();
                        if (has("name"))
                            return keep ? table.filter(predicate, named(), materialized) : table.filterNot(predicate, named(), materialized);
                        return keep ? table.filter(predicate, materialized) : table.filterNot(predicate, materialized);
                    }
                    if (has("name"))
                        return keep ? table.filter(predicate, named()) : table.filterNot(predicate, named());
                    return keep ? table.filter(predicate) : table.filterNot(predicate);
                }
                case "map_values": {
                    ValueMapper mapper = v -> mapValue(text(0), v);
                    if (hasMaterialized())
                        return has("name") ? table.mapValues(mapper, named(), materialized()) : table.mapValues(mapper, materialized());
                    return has("name") ? table.mapValues(mapper, named()) : table.mapValues(mapper);
                }
                case "to_stream":
                    return has("name") ? table.toStream(named()) : table.toStream();
                case "suppress": {
                    Suppressed suppressed;
                    if (has("wait")) {
                        Suppressed.BufferConfig buffer = Suppressed.BufferConfig.unbounded();
                        if (has("records_max"))
                            buffer = Suppressed.BufferConfig.maxRecords(about.get("records_max").asLong());
                        if (has("bytes_max"))
                            buffer = Suppressed.BufferConfig.maxBytes(about.get("bytes_max").asLong());
                        suppressed = Suppressed.untilTimeLimit(ms("wait"), buffer);
                    } else {
                        suppressed = Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded());
                    }
                    return table.suppress(has("name") ? suppressed.withName(text("name")) : suppressed);
                }
                case "group_by": {
                    KeyValueMapper mapper = (k, v) -> newPair(text(0), k, v);
                    if (!has("name") && !has("key_serde") && !has("value_serde"))
                        return table.groupBy(mapper);
                    return table.groupBy(mapper, grouped());
                }
                case "join":
                case "left_join":
                case "outer_join": {
                    ValueJoiner joiner = (one, two) -> two(text(1), one, two);
                    KTable other = (KTable) other(0);
                    if (has("foreign_key")) {
                        java.util.function.Function key = v -> mapValue(text("foreign_key"), v);
                        TableJoined joined = has("name") ? TableJoined.as(text("name")) : TableJoined.with(null, null);
                        return call.equals("join")
                            ? table.join(other, key, joiner, joined, materialized())
                            : table.leftJoin(other, key, joiner, joined, materialized());
                    }
                    if (hasMaterialized()) {
                        Materialized materialized = materialized();
                        if (has("name"))
                            return switch (call) {
                                case "join" -> table.join(other, joiner, named(), materialized);
                                case "left_join" -> table.leftJoin(other, joiner, named(), materialized);
                                default -> table.outerJoin(other, joiner, named(), materialized);
                            };
                        return switch (call) {
                            case "join" -> table.join(other, joiner, materialized);
                            case "left_join" -> table.leftJoin(other, joiner, materialized);
                            default -> table.outerJoin(other, joiner, materialized);
                        };
                    }
                    if (has("name"))
                        return switch (call) {
                            case "join" -> table.join(other, joiner, named());
                            case "left_join" -> table.leftJoin(other, joiner, named());
                            default -> table.outerJoin(other, joiner, named());
                        };
                    return switch (call) {
                        case "join" -> table.join(other, joiner);
                        case "left_join" -> table.leftJoin(other, joiner);
                        default -> table.outerJoin(other, joiner);
                    };
                }
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Object ofGroupedStream(KGroupedStream grouped, String call) {
            switch (call) {
                case "cogroup":
                    return grouped.cogroup((k, v, a) -> StreamsOracle.aggregate(text(0), k, v, a));
                case "count":
                    if (hasMaterialized())
                        return has("name") ? grouped.count(named(), materialized()) : grouped.count(materialized());
                    return has("name") ? grouped.count(named()) : grouped.count();
                case "reduce": {
                    Reducer reducer = (one, two) -> two(text(0), one, two);
                    if (has("name"))
                        return grouped.reduce(reducer, named(), materialized());
                    return hasMaterialized() ? grouped.reduce(reducer, materialized()) : grouped.reduce(reducer);
                }
                case "aggregate": {
                    Initializer initializer = () -> initial(text(0));
                    Aggregator aggregator = (k, v, a) -> StreamsOracle.aggregate(text(1), k, v, a);
                    if (has("name"))
                        return grouped.aggregate(initializer, aggregator, named(), materialized());
                    return hasMaterialized()
                        ? grouped.aggregate(initializer, aggregator, materialized()) : grouped.aggregate(initializer, aggregator);
                }
                case "windowed_by":
                    if (has("difference"))
                        return grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms("difference"), ms("grace")));
                    if (has("gap"))
                        return grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(ms("gap"), ms("grace")));
                    TimeWindows windows = TimeWindows.ofSizeAndGrace(ms("size"), ms("grace"));
                    return grouped.windowedBy(has("advance") ? windows.advanceBy(ms("advance")) : windows);
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Object ofWindowed(TimeWindowedKStream windowed, String call) {
            switch (call) {
                case "emit_on_close":
                    return windowed.emitStrategy(EmitStrategy.onWindowClose());
                case "count":
                    if (hasMaterialized())
                        return has("name") ? windowed.count(named(), materialized()) : windowed.count(materialized());
                    return has("name") ? windowed.count(named()) : windowed.count();
                case "reduce": {
                    Reducer reducer = (one, two) -> two(text(0), one, two);
                    if (hasMaterialized())
                        return has("name") ? windowed.reduce(reducer, named(), materialized()) : windowed.reduce(reducer, materialized());
                    return has("name") ? windowed.reduce(reducer, named()) : windowed.reduce(reducer);
                }
                case "aggregate": {
                    Initializer initializer = () -> initial(text(0));
                    Aggregator aggregator = (k, v, a) -> StreamsOracle.aggregate(text(1), k, v, a);
                    if (hasMaterialized())
                        return has("name")
                            ? windowed.aggregate(initializer, aggregator, named(), materialized())
                            : windowed.aggregate(initializer, aggregator, materialized());
                    return has("name") ? windowed.aggregate(initializer, aggregator, named()) : windowed.aggregate(initializer, aggregator);
                }
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Object ofSessions(SessionWindowedKStream sessions, String call) {
            switch (call) {
                case "emit_on_close":
                    return sessions.emitStrategy(EmitStrategy.onWindowClose());
                case "count":
                    if (hasMaterialized())
                        return has("name") ? sessions.count(named(), materialized()) : sessions.count(materialized());
                    return has("name") ? sessions.count(named()) : sessions.count();
                case "reduce": {
                    Reducer reducer = (one, two) -> two(text(0), one, two);
                    if (hasMaterialized())
                        return has("name") ? sessions.reduce(reducer, named(), materialized()) : sessions.reduce(reducer, materialized());
                    return has("name") ? sessions.reduce(reducer, named()) : sessions.reduce(reducer);
                }
                case "aggregate": {
                    Initializer initializer = () -> initial(text(0));
                    Aggregator aggregator = (k, v, a) -> StreamsOracle.aggregate(text(1), k, v, a);
                    Merger merger = (k, one, two) -> two(text(2), one, two);
                    if (hasMaterialized())
                        return has("name")
                            ? sessions.aggregate(initializer, aggregator, merger, named(), materialized())
                            : sessions.aggregate(initializer, aggregator, merger, materialized());
                    return has("name")
                        ? sessions.aggregate(initializer, aggregator, merger, named()) : sessions.aggregate(initializer, aggregator, merger);
                }
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Object ofCogrouped(Object on, String call) {
            Initializer initializer = () -> initial(text(0));
            Named named = has("name") ? named() : null;
            if (on instanceof CogroupedKStream groups)
                switch (call) {
                    case "cogroup":
                        return groups.cogroup((KGroupedStream) other(0), (k, v, a) -> StreamsOracle.aggregate(text(1), k, v, a));
                    case "windowed_by":
                        if (has("difference"))
                            return groups.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms("difference"), ms("grace")));
                        if (has("gap"))
                            return groups.windowedBy(SessionWindows.ofInactivityGapAndGrace(ms("gap"), ms("grace")));
                        TimeWindows windows = TimeWindows.ofSizeAndGrace(ms("size"), ms("grace"));
                        return groups.windowedBy(has("advance") ? windows.advanceBy(ms("advance")) : windows);
                    case "aggregate":
                        if (hasMaterialized())
                            return named != null ? groups.aggregate(initializer, named, materialized()) : groups.aggregate(initializer, materialized());
                        return named != null ? groups.aggregate(initializer, named) : groups.aggregate(initializer);
                    default:
                        throw new IllegalArgumentException(call);
                }
            if (on instanceof TimeWindowedCogroupedKStream windowed) {
                if (hasMaterialized())
                    return named != null ? windowed.aggregate(initializer, named, materialized()) : windowed.aggregate(initializer, materialized());
                return named != null ? windowed.aggregate(initializer, named) : windowed.aggregate(initializer);
            }
            SessionWindowedCogroupedKStream sessions = (SessionWindowedCogroupedKStream) on;
            Merger merger = (k, one, two) -> two(text(1), one, two);
            if (hasMaterialized())
                return named != null ? sessions.aggregate(initializer, merger, named, materialized()) : sessions.aggregate(initializer, merger, materialized());
            return named != null ? sessions.aggregate(initializer, merger, named) : sessions.aggregate(initializer, merger);
        }

        Object ofGroupedTable(KGroupedTable grouped, String call) {
            switch (call) {
                case "count":
                    if (hasMaterialized())
                        return has("name") ? grouped.count(named(), materialized()) : grouped.count(materialized());
                    return has("name") ? grouped.count(named()) : grouped.count();
                case "reduce": {
                    Reducer adder = (one, two) -> two(text(0), one, two);
                    Reducer subtractor = (one, two) -> two(text(1), one, two);
                    if (has("name"))
                        return grouped.reduce(adder, subtractor, named(), materialized());
                    return hasMaterialized() ? grouped.reduce(adder, subtractor, materialized()) : grouped.reduce(adder, subtractor);
                }
                case "aggregate": {
                    Initializer initializer = () -> initial(text(0));
                    Aggregator adder = (k, v, a) -> StreamsOracle.aggregate(text(1), k, v, a);
                    Aggregator subtractor = (k, v, a) -> StreamsOracle.aggregate(text(2), k, v, a);
                    if (hasMaterialized())
                        return has("name")
                            ? grouped.aggregate(initializer, adder, subtractor, named(), materialized())
                            : grouped.aggregate(initializer, adder, subtractor, materialized());
                    return has("name")
                        ? grouped.aggregate(initializer, adder, subtractor, named()) : grouped.aggregate(initializer, adder, subtractor);
                }
                default:
                    throw new IllegalArgumentException(call);
            }
        }

        Object ofBranches(BranchedKStream branches, String call) {
            switch (call) {
                case "branch": {
                    Predicate predicate = (k, v) -> test(text(0), k, v);
                    return has("name") ? branches.branch(predicate, Branched.as(text("name"))) : branches.branch(predicate);
                }
                case "default_branch":
                    return has("name") ? branches.defaultBranch(Branched.as(text("name"))) : branches.defaultBranch();
                case "no_default_branch":
                    return branches.noDefaultBranch();
                default:
                    throw new IllegalArgumentException(call);
            }
        }
    }

    // processors

    static Processor processor(String name, String[] stores) {
        return new ContextualProcessor() {
            KeyValueStore<Object, Long> counts;

            @Override
            public void init(ProcessorContext context) {
                super.init(context);
                if (name.equals("count"))
                    counts = context.getStateStore(stores[0]);
                if (name.equals("tick"))
                    context.schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME,
                        time -> context.forward(new Record("tick", "" + time, time)));
                if (name.equals("clock"))
                    context.schedule(Duration.ofMillis(700), PunctuationType.WALL_CLOCK_TIME,
                        time -> context.forward(new Record("clock", "" + time + "/" + context.currentStreamTimeMs(), time)));
                if (name.equals("fails"))
                    context.schedule(Duration.ofMillis(40), PunctuationType.STREAM_TIME, time -> {
                        context.forward(new Record("tick", "" + time, time));
                        throw new IllegalStateException("fails");
                    });
                if (name.equals("flush")) {
                    counts = context.getStateStore(stores[0]);
                    context.schedule(Duration.ofMillis(15), PunctuationType.STREAM_TIME, time -> {
                        try (KeyValueIterator<Object, Long> all = counts.all()) {
                            all.forEachRemaining(each -> {
                                context.forward(new Record(each.key, "" + each.value, time));
                                counts.delete(each.key);
                            });
                        }
                    });
                }
            }

            @Override
            public void process(Record record) {
                switch (name) {
                    case "count", "flush": {
                        if (record.key() == null)
                            return;
                        Long count = counts.get(record.key());
                        counts.put(record.key(), count == null ? 1L : count + 1);
                        if (name.equals("count"))
                            context().forward(record.withValue(record.value() + "#" + counts.get(record.key())));
                        return;
                    }
                    case "twice":
                        context().forward(record);
                        context().forward(record.withKey("again").withTimestamp(record.timestamp() + 1));
                        return;
                    case "place": {
                        RecordMetadata place = (RecordMetadata) context().recordMetadata().get();
                        context().forward(record.withValue(place.topic() + "/" + place.partition() + "/" + place.offset() + "@" + context().currentStreamTimeMs()));
                        return;
                    }
                    case "fails":
                        context().forward(record.withValue(atMostTwo(string(record.value()))).withTimestamp(record.timestamp() + 1));
                        context().forward(record.withKey("again"));
                        return;
                    default:
                        context().forward(record);
                }
            }
        };
    }

    static FixedKeyProcessor fixedKeyProcessor(String name, String[] stores) {
        return new ContextualFixedKeyProcessor() {
            @Override
            public void process(FixedKeyRecord record) {
                switch (name) {
                    case "versions": {
                        if (record.key() == null)
                            return;
                        VersionedKeyValueStore<Object, Object> store = context().getStateStore(stores[0]);
                        StringBuilder found = new StringBuilder();
                        found.append(store.put(record.key(), record.value(), record.timestamp()));
                        found.append(" ").append(version(store.get(record.key())));
                        for (long more : new long[] {-40, -8, -1, 0, 4})
                            found.append(" ").append(version(store.get(record.key(), record.timestamp() + more)));
                        context().forward(record.withValue(found.toString()));
                        return;
                    }
                    case "deletions": {
                        if (record.key() == null)
                            return;
                        VersionedKeyValueStore<Object, Object> store = context().getStateStore(stores[0]);
                        store.put(record.key(), record.value(), Math.max(0, record.timestamp() - 5));
                        context().forward(record.withValue(version(store.delete(record.key(), record.timestamp()))));
                        return;
                    }
                    case "windows": {
                        if (record.key() == null)
                            return;
                        WindowStore<Object, Object> store = context().getStateStore(stores[0]);
                        store.put(record.key(), record.value(), record.timestamp());
                        StringBuilder found = new StringBuilder();
                        try (WindowStoreIterator<Object> all = store.fetch(record.key(), record.timestamp() - 20, record.timestamp() + 5)) {
                            all.forEachRemaining(each -> found.append(each.key).append(":").append(each.value).append(" "));
                        }
                        context().forward(record.withValue(found.toString()));
                        return;
                    }
                    case "sessions": {
                        if (record.key() == null)
                            return;
                        SessionStore<Object, Object> store = context().getStateStore(stores[0]);
                        store.put(new Windowed(record.key(), new org.apache.kafka.streams.kstream.internals.SessionWindow(record.timestamp(), record.timestamp() + 3)), record.value());
                        StringBuilder found = new StringBuilder();
                        try (KeyValueIterator<Windowed<Object>, Object> all = store.findSessions(record.key(), record.timestamp() - 10, record.timestamp() + 10)) {
                            all.forEachRemaining(each -> found.append(each.key).append(":").append(each.value).append(" "));
                        }
                        context().forward(record.withValue(found.toString()));
                        return;
                    }
                    case "upper":
                        context().forward(record.withValue(mapValue("upper", record.value())));
                        return;
                    default:
                        context().forward(record);
                }
            }
        };
    }
}
