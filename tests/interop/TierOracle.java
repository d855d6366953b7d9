import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.RemotePartitionMetadataStore;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * What Kafka's RemoteLogMetadataCache makes of records, and which partition has them: a question a line, an answer a
 * line, JSON (see tests/interop/test_tier_kafka.py).
 */
public class TierOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            Object answer = switch (question.get("ask").asText()) {
                case "cache" -> cache(question);
                case "written" -> written(question);
                case "store" -> store(question);
                default -> partition(question);
            };
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    /** The bytes that Kafka's serde writes for what it reads from the given ones, and what that is. */
    static Object written(JsonNode question) {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        List<Object> answer = new ArrayList<>();
        for (JsonNode each : question.get("records")) {
            RemoteLogMetadata metadata = serde.deserialize(Base64.getDecoder().decode(each.asText()));
            answer.add(List.of(
                metadata.getClass().getSimpleName(), Base64.getEncoder().encodeToString(serde.serialize(metadata))));
        }
        return answer;
    }

    /**
     * What Kafka's reader of the topic does with each record, for a broker with one tiered partition: "" if it takes or
     * skips it, else the exception, with which the reader ends (here it goes on); and the segments that it knows then.
     */
    static Object store(JsonNode question) throws Exception {
        TopicIdPartition whose = new TopicIdPartition(
            Uuid.fromString(question.get("topic_id").asText()), question.get("partition").asInt(),
            question.get("topic").asText());
        RemotePartitionMetadataStore store = new RemotePartitionMetadataStore();
        store.maybeLoadPartition(whose);
        store.markInitialized(whose);
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        List<String> answers = new ArrayList<>();
        for (JsonNode each : question.get("records")) {
            String answer = "";
            try {
                byte[] value = each.isNull() ? null : Base64.getDecoder().decode(each.asText());
                RemoteLogMetadata metadata = serde.deserialize(value);
                if (metadata.topicIdPartition().equals(whose))
                    store.handleRemoteLogMetadata(metadata);
            } catch (Exception error) {
                answer = error.getClass().getSimpleName();
            }
            answers.add(answer);
        }
        Map<String, Object> segments = new TreeMap<>();
        try {
            Method list = RemotePartitionMetadataStore.class.getDeclaredMethod(
                "listRemoteLogSegments", TopicIdPartition.class);
            list.setAccessible(true);
            Iterator<?> all = (Iterator<?>) list.invoke(store, whose);
            while (all.hasNext()) {
                RemoteLogSegmentMetadata each = (RemoteLogSegmentMetadata) all.next();
                segments.put(id(each), each.state().name());
            }
        } catch (InvocationTargetException none) {
            segments.put("none", none.getCause().getClass().getSimpleName());
        }
        return Map.of("answers", answers, "segments", segments);
    }

    static Object partition(JsonNode question) {
        TopicIdPartition whose = new TopicIdPartition(
            Uuid.fromString(question.get("topic_id").asText()), question.get("partition").asInt(), "any");
        return new RemoteLogMetadataTopicPartitioner(question.get("count").asInt()).metadataPartition(whose);
    }

    static Object cache(JsonNode question) throws Exception {
        RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        for (JsonNode each : question.get("records")) {
            RemoteLogMetadata metadata = serde.deserialize(Base64.getDecoder().decode(each.asText()));
            try {
                if (metadata instanceof RemoteLogSegmentMetadata segment)
                    call(cache, "addCopyInProgressSegment", segment);
                else
                    call(cache, "updateRemoteLogSegmentMetadata", metadata);
            } catch (InvocationTargetException refused) {
                // Kafka logs it, and goes on
            }
        }
        Map<String, Object> answer = new TreeMap<>();
        Map<String, Object> all = new TreeMap<>();
        Iterator<?> segments = (Iterator<?>) call(cache, "listAllRemoteLogSegments");
        while (segments.hasNext()) {
            RemoteLogSegmentMetadata each = (RemoteLogSegmentMetadata) segments.next();
            all.put(id(each), List.of(each.state().name(), each.eventTimestampMs(), each.brokerId()));
        }
        answer.put("segments", all);
        List<Object> epochs = new ArrayList<>();
        for (JsonNode epoch : question.get("epochs")) {
            List<String> ids = new ArrayList<>();
            Iterator<?> listed = (Iterator<?>) call(cache, "listRemoteLogSegments", epoch.asInt());
            while (listed.hasNext())
                ids.add(id((RemoteLogSegmentMetadata) listed.next()));
            ids.sort(null);
            Optional<?> highest = (Optional<?>) call(cache, "highestOffsetForEpoch", epoch.asInt());
            epochs.add(List.of(ids, highest.isPresent() ? highest.get() : -1));
        }
        answer.put("epochs", epochs);
        List<String> held = new ArrayList<>();
        for (JsonNode each : question.get("offsets")) {
            Optional<?> found = (Optional<?>) call(
                cache, "remoteLogSegmentMetadata", each.get(0).asInt(), each.get(1).asLong());
            held.add(found.isPresent() ? id((RemoteLogSegmentMetadata) found.get()) : "");
        }
        answer.put("offsets", held);
        return answer;
    }

    static String id(RemoteLogSegmentMetadata segment) {
        return segment.remoteLogSegmentId().id().toString();
    }

    /** Call a method of the cache, most of which are for its package alone. */
    static Object call(RemoteLogMetadataCache cache, String name, Object... arguments) throws Exception {
        for (Method method : RemoteLogMetadataCache.class.getDeclaredMethods()) {
            boolean isStatic = java.lang.reflect.Modifier.isStatic(method.getModifiers());
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length && !isStatic) {
                method.setAccessible(true);
                return method.invoke(cache, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }
}
