import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * What Kafka's UnifiedLog is after each of some steps, with tiered storage: a question a line, an answer a line, JSON
 * (see tests/interop/test_tiered_log_kafka.py).
 */
public class TieredLogOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static long now;

    static final Time TIME = new Time() {
        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
        }
    };

    /** Runs at once what is not to be repeated or delayed, and nothing else. */
    static final Scheduler SCHEDULER = new Scheduler() {
        public void startup() {
        }

        public void shutdown() {
        }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (delay <= 0 && period < 0)
                task.run();
            return null;
        }

        public void resizeThreadPool(int size) {
        }
    };

    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(JSON.writeValueAsString(play(JSON.readTree(line))));
            System.out.flush();
        }
    }

    static LogConfig config(JsonNode texts) {
        Properties properties = new Properties();
        texts.fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        return new LogConfig(properties);
    }

    static Object play(JsonNode question) throws Exception {
        now = question.get("now_ms").asLong();
        File directory = new File(question.get("directory").asText());
        UnifiedLog log = UnifiedLog.create(directory, config(question.get("config")), question.get("log_start").asLong(),
            0, SCHEDULER, new BrokerTopicStats(false), TIME, 60_000, new ProducerStateManagerConfig(86_400_000, false),
            600_000, new LogDirFailureChannel(1), true, Optional.empty(), new ConcurrentHashMap<>(),
            question.get("system").asBoolean(), LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        List<Object> states = new ArrayList<>();
        states.add(state(log, ""));
        for (JsonNode step : question.get("steps"))
            states.add(state(log, run(log, step)));
        log.closeHandlers();
        return states;
    }

    static String run(UnifiedLog log, JsonNode step) throws Exception {
        long offset = step.size() > 1 ? step.get(1).asLong() : -1;
        try {
            switch (step.get(0).asText()) {
                case "high watermark" -> log.updateHighWatermark(offset);
                case "tiered" -> log.updateHighestOffsetInRemoteStorage(offset);
                case "delete" ->
                    log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.ClientRecordDeletion);
                case "advance" -> log.updateLogStartOffsetFromRemoteTier(offset);
                case "truncate" -> log.truncateTo(offset);
                case "fully" -> log.truncateFullyAndStartAt(offset, Optional.of(step.get(2).asLong()));
                case "configure" -> log.updateConfig(config(step.get(1)));
                case "retain" -> {
                    now = offset;
                    log.deleteOldSegments();
                }
                default -> throw new IllegalArgumentException(step.toString());
            }
        } catch (OffsetOutOfRangeException refused) {
            return "out of range";
        }
        return "";
    }

    static Object state(UnifiedLog log, String error) throws Exception {
        Map<String, Object> state = new TreeMap<>();
        state.put("error", error);
        state.put("tiered", log.remoteLogEnabled());
        long localStart = log.remoteLogEnabled() ? log.localLogStartOffset() : log.logStartOffset();  // else it is unused
        // Kafka's last stable offset is the base offset of its batch, which may lie below the log start offset
        long stable = Math.max(log.lastStableOffset(), log.logStartOffset());
        state.put("offsets",
            List.of(log.logStartOffset(), localStart, stable, log.highWatermark(), log.logEndOffset()));
        List<Object> segments = new ArrayList<>();
        for (LogSegment each : log.logSegments())
            segments.add(List.of(each.baseOffset(), each.size(), each.size() > 0 ? each.largestTimestamp() : -1));
        state.put("segments", segments);
        state.put("epochs", log.leaderEpochCache().epochEntries().stream()
            .map(each -> List.of(each.epoch(), each.startOffset())).toList());
        List<Object> special = new ArrayList<>();
        for (long timestamp : new long[] {-2, -4, -1, -5, -6})
            log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt().ifPresent(
                found -> special.add(List.of(found.offset, found.leaderEpoch.orElse(-1))));
        state.put("special", special);
        state.put("snapshots", Arrays.stream(log.dir().list()).filter(each -> each.endsWith(".snapshot")).sorted().toList());
        return state;
    }
}
