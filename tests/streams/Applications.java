import java.io.InputStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.*;

/**
 * Programs of tests/streams/applications.py for Kafka Streams: PROGRAM BOOTSTRAP_SERVERS STATE_DIR GUARANTEE runs until
 * standard input ends, then leaves the group; whenever all tasks run, it prints a line.
 */
public class Applications {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        switch (args[0]) {
            case "count" -> count(builder);
            case "windowed_count" -> windowedCount(builder);
            case "table_join" -> tableJoin(builder);
            case "stream_table_join" -> streamTableJoin(builder);
            default -> throw new IllegalArgumentException(args[0]);
        }
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[3]);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.exit(1);
            return null;
        });
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.RUNNING)
                System.out.println("running");
        });
        streams.start();
        InputStream in = System.in;
        while (in.read() >= 0) {
        }
        streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
            .withTimeout(Duration.ofSeconds(30)));
    }

    static String text(Long number) {
        return "count " + number;
    }

    static void count(StreamsBuilder builder) {
        builder.<String, String>stream("a").flatMapValues(value -> Arrays.asList(value.split(" ")))
            .groupBy((key, word) -> word).count(Materialized.as("counts"))
            .toStream().mapValues(Applications::text).to("out");
    }

    static void windowedCount(StreamsBuilder builder) {
        builder.<String, String>stream("a").groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(1000), Duration.ofMillis(500)))
            .count(Materialized.as("counts")).toStream(Named.as("s"))
            .map((key, n) -> KeyValue.pair(key.key() + "@" + key.window().start(), text(n))).to("out");
    }

    static void tableJoin(StreamsBuilder builder) {
        KTable<String, String> one = builder.table("a", Materialized.as("one"));
        KTable<String, String> other = builder.table("b", Materialized.as("other"));
        one.outerJoin(other, (left, right) -> python(left) + "+" + python(right), Materialized.as("joined"))
            .toStream().to("out");
    }

    static void streamTableJoin(StreamsBuilder builder) {
        KTable<String, String> table = builder.table("b", Materialized.as("table"));
        builder.<String, String>stream("a").leftJoin(table, (one, other) -> one + "+" + python(other)).to("out");
    }

    static String python(String value) {
        return value == null ? "None" : value;
    }
}
