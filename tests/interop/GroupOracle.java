import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * What Kafka's group coordinator decides: a question a line, an answer a line, JSON (see test_consumer_groups_kafka.py).
 * Run from source: java -cp 'jars/*' GroupOracle.java
 */
public class GroupOracle {
    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = json.readTree(line);
            Object answer = switch (question.get("ask").asText()) {
                case "assign" -> assign(question);
                case "topic" -> Utils.computeTopicHash(question.get("name").asText(), new Topic(question));
                case "group" -> group(question.get("hashes"));
                case "regex" -> regex(question);
                default -> throw new IllegalArgumentException(line);
            };
            System.out.write((json.writeValueAsString(answer) + "\n").getBytes(UTF_8));
        }
        System.out.flush();
    }

    static Map<String, List<Object>> assign(JsonNode question) {
        Map<Uuid, Integer> topics = new LinkedHashMap<>();
        question.get("topics").forEach(each -> topics.put(Uuid.fromString(each.get(0).asText()), each.get(1).asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        question.get("members").forEach(each -> {
            String id = each.get("id").asText();
            Set<Uuid> asked = new LinkedHashSet<>();
            each.get("topics").forEach(topic -> asked.add(Uuid.fromString(topic.asText())));
            Set<Uuid> read = new LinkedHashSet<>(topics.keySet());
            read.retainAll(asked);
            var record = new ConsumerGroupTargetAssignmentMemberValue();
            each.get("assigned").forEach(pair -> {
                Uuid topic = Uuid.fromString(pair.get(0).asText());
                List<Integer> partitions = new ArrayList<>();
                pair.get(1).forEach(partition -> {
                    partitions.add(partition.asInt());
                    owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition.asInt(), id);
                });
                record.topicPartitions().add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(topic).setPartitions(partitions));
            });
            Optional<String> instance = Optional.ofNullable(each.get("instance").textValue());
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, read, Assignment.fromRecord(record)));
        });
        PartitionAssignor assignor =
            question.get("assignor").asText().equals("uniform") ? new UniformAssignor() : new RangeAssignor();
        SubscriptionType type =
            question.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return topics.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        Map<String, List<Object>> answer = new LinkedHashMap<>();
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members().forEach((id, assignment) -> {
            List<Object> given = new ArrayList<>();
            assignment.partitions().forEach((topic, partitions) ->
                given.add(List.of(topic.toString(), partitions.stream().sorted().toList())));
            answer.put(id, given);
        });
        return answer;
    }

    static long group(JsonNode hashes) {
        Map<String, Long> byName = new HashMap<>();
        hashes.properties().forEach(each -> byName.put(each.getKey(), each.getValue().asLong()));
        return Utils.computeGroupHash(byName);
    }

    /** The topics that match, or what is wrong with the expression. */
    static Object regex(JsonNode question) throws ReflectiveOperationException {
        String regex = question.get("regex").asText();
        var check = Utils.class.getDeclaredMethod("throwIfRegularExpressionIsInvalid", String.class);
        check.setAccessible(true);
        try {
            check.invoke(null, regex);
        } catch (InvocationTargetException refused) {
            return refused.getCause().getMessage();
        }
        var pattern = com.google.re2j.Pattern.compile(regex);
        List<String> matched = new ArrayList<>();
        question.get("topics").forEach(topic -> {
            if (pattern.matcher(topic.asText()).matches())
                matched.add(topic.asText());
        });
        return matched;
    }

    /** A cluster with one topic. */
    record Topic(JsonNode json) implements CoordinatorMetadataImage, CoordinatorMetadataImage.TopicMetadata {
        @Override
        public String name() {
            return json.get("name").asText();
        }

        @Override
        public Uuid id() {
            return Uuid.fromString(json.get("id").asText());
        }

        @Override
        public int partitionCount() {
            return json.get("racks").size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            List<String> racks = new ArrayList<>();
            json.get("racks").get(partition).forEach(rack -> racks.add(rack.asText()));
            return racks;
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.of(this);
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(this);
        }

        @Override
        public Set<Uuid> topicIds() {
            return Set.of(id());
        }

        @Override
        public Set<String> topicNames() {
            return Set.of(name());
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }
}
