import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What MirrorMaker's own classes make of offset syncs. A line of JSON in, a line out:
 *
 * {"ask": "due", "lag": N, "records": [[UPSTREAM, DOWNSTREAM], ...]} -> {"due": [whether a sync is due, ...]}
 * {"ask": "translate", "syncs": [[UPSTREAM, DOWNSTREAM], ...], "groups": [UPSTREAM, ...]} -> {"offsets": [...]}
 */
public class MirrorOracle {
    private static final String PACKAGE = "org.apache.kafka.connect.mirror.";
    private static final TopicPartition PLACE = new TopicPartition("t", 0);
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] given) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = JSON.readTree(line);
            System.out.println(question.get("ask").asText().equals("due") ? due(question) : translate(question));
        }
    }

    private static ObjectNode due(JsonNode question) throws Exception {
        Class<?> kind = Class.forName(PACKAGE + "OffsetSyncWriter$PartitionState");
        Constructor<?> make = kind.getDeclaredConstructor(long.class);
        Method update = kind.getDeclaredMethod("update", long.class, long.class), reset = kind.getDeclaredMethod("reset");
        make.setAccessible(true);
        update.setAccessible(true);
        reset.setAccessible(true);
        Object state = make.newInstance(question.get("lag").asLong());
        ObjectNode found = JSON.createObjectNode();
        ArrayNode due = found.putArray("due");
        for (JsonNode record : question.get("records")) {
            boolean isDue = (Boolean) update.invoke(state, record.get(0).asLong(), record.get(1).asLong());
            if (isDue) {
                reset.invoke(state);
            }
            due.add(isDue);
        }
        return found;
    }

    private static ObjectNode translate(JsonNode question) throws Exception {
        Class<?> kind = Class.forName(PACKAGE + "OffsetSyncStore"), sync = Class.forName(PACKAGE + "OffsetSync");
        Constructor<?> make = kind.getDeclaredConstructor();
        Constructor<?> sent = sync.getDeclaredConstructor(TopicPartition.class, long.class, long.class);
        Method take = kind.getDeclaredMethod("handleRecord", ConsumerRecord.class);
        Method translate = kind.getDeclaredMethod("translateDownstream", String.class, TopicPartition.class, long.class);
        Method key = sync.getDeclaredMethod("recordKey"), value = sync.getDeclaredMethod("recordValue");
        Field isRead = kind.getDeclaredField("readToEnd");
        for (var each : new java.lang.reflect.AccessibleObject[] {make, sent, take, translate, key, value, isRead}) {
            each.setAccessible(true);
        }
        Object store = make.newInstance();
        isRead.set(store, true);
        for (JsonNode each : question.get("syncs")) {
            Object made = sent.newInstance(PLACE, each.get(0).asLong(), each.get(1).asLong());
            take.invoke(store, new ConsumerRecord<>("s", 0, 0, (byte[]) key.invoke(made), (byte[]) value.invoke(made)));
        }
        ObjectNode found = JSON.createObjectNode();
        ArrayNode offsets = found.putArray("offsets");
        for (JsonNode each : question.get("groups")) {
            OptionalLong offset = (OptionalLong) translate.invoke(store, "g", PLACE, each.asLong());
            if (offset.isPresent()) {
                offsets.add(offset.getAsLong());
            } else {
                offsets.addNull();
            }
        }
        return found;
    }
}
