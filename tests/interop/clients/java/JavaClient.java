// The steps of ../README.md with Kafka's own Java client: java -cp 'JARS/*' JavaClient.java BOOTSTRAP JOB.json

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class JavaClient {
    static final int WAIT_MS = 20_000;
    static final int LARGEST = 8 << 20;
    static final TopicPartition NONE = new TopicPartition("none", 0);
    static final TopicPartition IDEMPOTENT = new TopicPartition("idempotent-none", 0);
    static final String QUOTA = "consumer_byte_rate";

    static String bootstrap;
    static Admin admin;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        ObjectMapper json = new ObjectMapper();
        try (Admin opened = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = opened;
            System.out.println(json.writeValueAsString(report(json.readTree(new File(args[1])))));
        }
    }

    static Map<String, Object> report(JsonNode job) throws Exception {
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("client", "java " + AppInfoParser.getVersion());

        List<NewTopic> topics = new ArrayList<>();
        job.get("topics").properties().forEach(each -> {
            Map<String, String> configs = new HashMap<>();
            each.getValue().get("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
            int partitions = each.getValue().get("partitions").asInt();
            topics.add(new NewTopic(each.getKey(), partitions, (short) 1).configs(configs));
        });
        admin.createTopics(topics).all().get();
        report.put("created_again", error(admin.createTopics(List.of(new NewTopic("none", 1, (short) 1))).all()));

        Map<String, Object> acked = new LinkedHashMap<>();
        Map<String, Object> read = new LinkedHashMap<>();
        for (JsonNode run : job.get("runs")) {
            String topic = run.get("topic").asText();
            int partitions = run.get("partitions").asInt();
            List<ProducerRecord<byte[], byte[]>> records = records(job, topic, partitions);
            acked.put(topic, produce(records, run.get("codec").asText(), run.get("idempotent").asBoolean()));
            var found = read(topic, partitions, records.size(), run.get("committed").asBoolean());
            read.put(topic, found.stream().map(JavaClient::row).toList());
        }
        report.put("acked", acked);
        report.put("read", read);
        report.put("offsets", offsets(job.get("at_ms").asLong(), job.get("beyond_ms").asLong()));
        report.put("max_timestamp", listed(NONE, OffsetSpec.maxTimestamp()));
        report.put("tail_ms", tail(records(job, "tail", 1).get(0)));

        byte[] large = new byte[job.get("large_bytes").asInt()];
        produce(List.of(new ProducerRecord<>("large", 0, null, large)), "none", false);
        report.put("large", read("large", 1, 1, false).get(0).value().length);
        try (var producer = producer("none", false)) {
            report.put("too_large", error(producer.send(new ProducerRecord<>("none", 0, null, large))));
        }

        more(report);
        report.put("low_watermark", deleteRecords(job.get("delete_before").asLong()).get().lowWatermark());
        report.put("first_left", read("none", 1, 1, false).get(0).offset());
        report.put("deleted_beyond", error(deleteRecords(1L << 40)));

        Config doomed = configs("doomed");
        Map<String, String> chosen = new LinkedHashMap<>();
        for (var config : job.at("/topics/doomed/configs").properties())
            chosen.put(config.getKey(), doomed.get(config.getKey()).value());
        report.put("configs", chosen);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, "doomed");
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "4711"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        report.put("altered", configs("doomed").get("retention.ms").value());
        int count = job.at("/topics/doomed/partitions").asInt() + 2;
        admin.createPartitions(Map.of("doomed", NewPartitions.increaseTo(count))).all().get();
        var described = admin.describeTopics(List.of("doomed")).allTopicNames().get().get("doomed");
        report.put("partitions", described.partitions().size());
        admin.deleteTopics(List.of("doomed")).all().get();
        report.put("topics", new TreeSet<>(admin.listTopics().names().get()));
        report.put("deleted_again", error(admin.deleteTopics(List.of("doomed")).all()));
        var cluster = admin.describeCluster();
        report.put("cluster", Map.of("id", cluster.clusterId().get(), "controller", cluster.controller().get().id(),
            "nodes", cluster.nodes().get().stream().map(Node::id).toList()));
        return report;
    }

    static void more(Map<String, Object> report) throws Exception {
        var producers = admin.describeProducers(List.of(IDEMPOTENT)).all().get().get(IDEMPOTENT);
        report.put("producers", producers.activeProducers().size());
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        var directories = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values();
        report.put("log_size_bytes", directories.iterator().next().replicaInfos().get(IDEMPOTENT).size());
        var features = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        report.put("metadata_version", features.get("metadata.version").maxVersionLevel());
        report.put("quorum_leader", admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        ClientQuotaEntity thrifty = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "thrifty"));
        admin.alterClientQuotas(List.of(
            new ClientQuotaAlteration(thrifty, List.of(new ClientQuotaAlteration.Op(QUOTA, 1048576.0))))).all().get();
        var filter = ClientQuotaFilter.containsOnly(
            List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, "thrifty")));
        report.put("quota", admin.describeClientQuotas(filter).entities().get().get(thrifty).get(QUOTA));
    }

    static KafkaProducer<byte[], byte[]> producer(String codec, boolean idempotent) {
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "acks", "all", "compression.type", codec,
            "enable.idempotence", idempotent, "max.request.size", LARGEST, "linger.ms", 5);
        return new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> options = new HashMap<>(more);
        options.put("bootstrap.servers", bootstrap);
        options.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer()) {
            @Override
            public void close() {
                close(CloseOptions.timeout(Duration.ZERO));  // else it waits for the fetch that is under way
            }
        };
    }

    static List<Long> produce(List<ProducerRecord<byte[], byte[]>> records, String codec, boolean idempotent)
            throws Exception {
        List<Long> offsets = new ArrayList<>();
        try (var producer = producer(codec, idempotent)) {
            List<Future<RecordMetadata>> sent = records.stream().map(producer::send).toList();
            for (Future<RecordMetadata> each : sent)
                offsets.add(each.get().offset());
        }
        return offsets;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, int partitions, int count, boolean committed) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        List<TopicPartition> places = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++)
            places.add(new TopicPartition(topic, partition));
        try (var consumer = consumer(Map.of("isolation.level", committed ? "read_committed" : "read_uncommitted"))) {
            consumer.assign(places);
            long end = System.nanoTime() + WAIT_MS * 1_000_000L;
            while (found.size() < count) {
                if (System.nanoTime() > end)
                    throw new IllegalStateException("read " + found.size() + " of " + count + " records of " + topic);
                consumer.poll(Duration.ofSeconds(1)).forEach(found::add);
            }
        }
        return found;
    }

    static Map<String, Object> offsets(long at, long beyond) throws Exception {
        Map<String, Object> found = new HashMap<>();
        found.put("earliest", listed(NONE, OffsetSpec.earliest()));
        found.put("latest", listed(NONE, OffsetSpec.latest()));
        try (var consumer = consumer(Map.of())) {
            found.put("at", consumer.offsetsForTimes(Map.of(NONE, at)).get(NONE).offset());
            OffsetAndTimestamp none = consumer.offsetsForTimes(Map.of(NONE, beyond)).get(NONE);
            found.put("beyond", none == null ? null : none.offset());
        }
        return found;
    }

    static long listed(TopicPartition place, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
    }

    static double tail(ProducerRecord<byte[], byte[]> record) throws Exception {
        try (var consumer = consumer(Map.of("fetch.max.wait.ms", WAIT_MS))) {
            consumer.assign(List.of(new TopicPartition("tail", 0)));
            if (!consumer.poll(Duration.ofMillis(300)).isEmpty())
                throw new IllegalStateException("nothing there yet");
            long begin = System.nanoTime();
            produce(List.of(record), "none", false);
            if (consumer.poll(Duration.ofMillis(WAIT_MS)).isEmpty())
                throw new IllegalStateException("nothing came");
            return (System.nanoTime() - begin) / 1e6;
        }
    }

    static KafkaFuture<org.apache.kafka.clients.admin.DeletedRecords> deleteRecords(long before) {
        return admin.deleteRecords(Map.of(NONE, RecordsToDelete.beforeOffset(before))).lowWatermarks().get(NONE);
    }

    static Config configs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }

    /** Kafka's code of the error that a future ends with; 0: none. */
    static int error(Future<?> future) throws InterruptedException {
        try {
            future.get();
            return 0;
        } catch (ExecutionException failed) {
            return Errors.forException(failed.getCause()).code();
        }
    }

    static List<ProducerRecord<byte[], byte[]>> records(JsonNode job, String topic, int partitions) {
        List<ProducerRecord<byte[], byte[]>> found = new ArrayList<>();
        for (JsonNode each : job.get("records")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : each.get("headers"))
                headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
            int partition = each.get("partition").asInt();
            if (partition < partitions)
                found.add(new ProducerRecord<>(topic, partition, each.get("timestamp_ms").asLong(),
                    bytes(each.get("key")), bytes(each.get("value")), headers));
        }
        return found;
    }

    static List<Object> row(ConsumerRecord<byte[], byte[]> record) {
        List<List<String>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        List<Object> row = new ArrayList<>(List.of(record.partition(), record.offset(), record.timestamp()));
        row.add(text(record.key()));
        row.add(text(record.value()));
        row.add(headers);
        return row;
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }
}
