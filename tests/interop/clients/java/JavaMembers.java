// Members of groups (../README.md) with Kafka's own Java client: java -cp 'JARS/*' JavaMembers.java BOOTSTRAP

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class JavaMembers {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration SHORT = Duration.ofMillis(100);

    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        Map<String, Member> members = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("member").asText();
            String what = command.get("do").asText();
            if (what.equals("open")) {
                members.put(name, new Member(name, command));
                members.get(name).start();
            } else {
                members.get(name).asked.add(what);
            }
        }
        System.exit(0);
    }

    static class Member extends Thread {
        final BlockingQueue<String> asked = new LinkedBlockingQueue<>();
        final JsonNode options;
        Set<TopicPartition> assigned = Set.of();

        Member(String name, JsonNode options) {
            super(name);
            this.options = options;
        }

        @Override
        public void run() {
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", bootstrap);
            config.put("group.id", text("group"));
            config.put("auto.offset.reset", text("reset"));
            config.put("enable.auto.commit", false);
            config.put("fetch.max.wait.ms", 100);
            if (options.hasNonNull("instance"))
                config.put("group.instance.id", text("instance"));
            config.put("group.protocol", text("protocol"));
            if (text("protocol").equals("classic")) {
                config.put("heartbeat.interval.ms", options.get("heartbeat_ms").asInt());
                config.put("session.timeout.ms", options.get("session_ms").asInt());
            }
            try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
                if (options.get("regex").asBoolean())
                    consumer.subscribe(new SubscriptionPattern(text("topic")));
                else
                    consumer.subscribe(List.of(text("topic")));
                for (String what = ""; !"close".equals(what); what = asked.poll()) {
                    if ("commit".equals(what)) {
                        consumer.commitSync();
                        tell("committed", true);
                    }
                    poll(consumer);
                }
            } catch (NoOffsetForPartitionException e) {
                tell("error", "no offset");
                while (!take().equals("close"))
                    continue;
            } catch (RuntimeException e) {
                tell("error", e.toString());
            }
            tell("closed", true);
        }

        void poll(KafkaConsumer<String, String> consumer) {
            List<String> values = new ArrayList<>();
            consumer.poll(SHORT).forEach(record -> values.add(record.value()));
            if (!consumer.assignment().equals(assigned)) {
                assigned = Set.copyOf(consumer.assignment());
                tell("assigned", assigned.stream().map(TopicPartition::partition).toList());
            }
            if (!values.isEmpty())
                tell("values", values);
        }

        String text(String option) {
            return options.get(option).asText();
        }

        String take() {
            try {
                return asked.take();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        void tell(String what, Object value) {
            synchronized (System.out) {
                try {
                    System.out.println(JSON.writeValueAsString(Map.of("member", getName(), what, value)));
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }
}
