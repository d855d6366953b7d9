// Transactions with Kafka's own Java client, step by step: java -cp 'JARS/*' JavaTransactions.java BOOTSTRAP
// Prints a report of what came of each, one line of JSON, as the last line of stdout; without ids and times.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

@SuppressWarnings("removal")
public class JavaTransactions {
    static final int WAIT_MS = 20_000;
    // longer than a loaded machine takes from a transaction's begin to its first record
    static final int SHORT_MS = 3_000;
    static final ListConsumerGroupOffsetsOptions STABLE = new ListConsumerGroupOffsetsOptions().requireStable(true);
    static final String TOPIC = "t";
    static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    static final TopicPartition SECOND = new TopicPartition(TOPIC, 1);

    static String bootstrap;
    static Admin admin;
    static final Map<String, Object> report = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        try (Admin opened = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = opened;
            admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all().get();
            report.put("version", admin.describeFeatures().featureMetadata().get()
                .finalizedFeatures().get("transaction.version").maxVersionLevel());
            commitAndAbort();
            stableOffset();
            offsets();
            fencing();
            fencedByAdmin();
            timeout();
            refusedRecord();
            Map<String, String> states = new TreeMap<>();
            for (TransactionListing each : admin.listTransactions().all().get()) {
                states.put(each.transactionalId(), settled(each.transactionalId()));
            }
            report.put("states", states);
            report.put("committed", values("read_committed"));
            report.put("all", values("read_uncommitted"));
            System.out.println(new ObjectMapper().writeValueAsString(report));
        }
    }

    static void commitAndAbort() throws Exception {
        try (KafkaProducer<String, String> producer = producer("simple", 60_000)) {
            producer.initTransactions();
            for (String round : List.of("committed-1", "aborted-1", "committed-2", "aborted-2", "empty", "committed-3")) {
                producer.beginTransaction();
                if (!round.equals("empty")) {
                    producer.send(new ProducerRecord<>(TOPIC, 0, null, round)).get();
                    producer.send(new ProducerRecord<>(TOPIC, 1, null, round));
                    producer.send(new ProducerRecord<>(TOPIC, 1, null, round + "+"));
                    producer.flush();  // an abort drops what has not been sent yet
                }
                if (round.startsWith("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        settled("simple");
    }

    static void stableOffset() throws Exception {
        List<Object> ends = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer("stable", 60_000);
             KafkaConsumer<String, String> reader = reader("read_committed")) {
            producer.initTransactions();
            reader.assign(List.of(FIRST));
            reader.seekToEnd(List.of(FIRST));
            long before = reader.position(FIRST);
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, null, "stable")).get();
            ends.add(reader.endOffsets(List.of(FIRST)).get(FIRST) - before);
            ends.add(reader.poll(Duration.ofMillis(300)).count());
            ends.add(settledOrOngoing("stable"));
            producer.commitTransaction();
            ends.add(poll(reader));
            ends.add(reader.endOffsets(List.of(FIRST)).get(FIRST) - before);
        }
        report.put("stable offset", ends);
    }

    static void offsets() throws Exception {
        List<Object> committed = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer("offsets", 60_000)) {
            producer.initTransactions();
            for (long offset : List.of(1L, 2L, 3L)) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(FIRST, new OffsetAndMetadata(offset, "note " + offset)), new ConsumerGroupMetadata("readers"));
                if (offset == 2) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
                OffsetAndMetadata found = settledOffset(offset == 2 ? 1 : offset);
                committed.add(List.of(found.offset(), found.metadata()));
            }
            producer.beginTransaction();
            ConsumerGroupMetadata stranger = new ConsumerGroupMetadata("readers", 7, "nobody", java.util.Optional.empty());
            committed.add(outcome(() -> {
                producer.sendOffsetsToTransaction(Map.of(FIRST, new OffsetAndMetadata(9)), stranger);
                producer.commitTransaction();
                return null;
            }));
            committed.add(outcome(() -> { producer.abortTransaction(); return null; }));
        }
        report.put("offsets", committed);
    }

    /** The readers' stable offset. Real Kafka's coordinator at times answers from before the transaction, for a moment. */
    static OffsetAndMetadata settledOffset(long expected) throws Exception {
        long deadline = System.nanoTime() + 10_000_000_000L;
        while (true) {
            OffsetAndMetadata found = admin.listConsumerGroupOffsets("readers", STABLE)
                .partitionsToOffsetAndMetadata().get().get(FIRST);
            if ((found != null && found.offset() == expected) || System.nanoTime() > deadline) {
                return found;
            }
            Thread.sleep(20);
        }
    }

    /** A second instance takes over while the first has a transaction open. */
    static void fencing() throws Exception {
        KafkaProducer<String, String> old = producer("fenced", 60_000);
        old.initTransactions();
        old.beginTransaction();
        old.send(new ProducerRecord<>(TOPIC, 0, null, "old")).get();
        try (KafkaProducer<String, String> young = producer("fenced", 60_000)) {
            young.initTransactions();
            young.beginTransaction();
            young.send(new ProducerRecord<>(TOPIC, 0, null, "young")).get();
            report.put("fenced", afterwards(old));
            young.commitTransaction();
            settled("fenced");
        }
        old.close(Duration.ZERO);

        KafkaProducer<String, String> committing = producer("overtaken", 60_000);
        committing.initTransactions();
        committing.beginTransaction();
        committing.send(new ProducerRecord<>(TOPIC, 0, null, "overtaken")).get();
        try (KafkaProducer<String, String> young = producer("overtaken", 60_000)) {
            young.initTransactions();
            report.put("commits after it was fenced", List.of(
                outcome(() -> { committing.commitTransaction(); return null; }),
                outcome(() -> { committing.abortTransaction(); return null; }),
                outcome(() -> { committing.initTransactions(); return null; })));
        }
        committing.close(Duration.ZERO);

        KafkaProducer<String, String> idle = producer("idle", 60_000);
        idle.initTransactions();
        try (KafkaProducer<String, String> young = producer("idle", 60_000)) {
            young.initTransactions();
            idle.beginTransaction();
            report.put("fenced while idle", afterwards(idle));
            young.beginTransaction();
            young.send(new ProducerRecord<>(TOPIC, 1, null, "after idle")).get();
            young.commitTransaction();
            settled("idle");
        }
        idle.close(Duration.ZERO);
    }

    static void fencedByAdmin() throws Exception {
        for (boolean terminate : List.of(false, true)) {
            String name = terminate ? "terminated" : "fenced by admin";
            KafkaProducer<String, String> producer = producer(name, 60_000);
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, null, name)).get();
            if (terminate) {
                admin.forceTerminateTransaction(name).result().get();
            } else {
                admin.fenceProducers(List.of(name)).all().get();
            }
            settled(name);
            report.put(name, afterwards(producer));
            producer.close(Duration.ZERO);
        }
    }

    static void timeout() throws Exception {
        KafkaProducer<String, String> producer = producer("late", SHORT_MS);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(TOPIC, 1, null, "late")).get();
        long until = System.currentTimeMillis() + WAIT_MS;
        while (settledOrOngoing("late").equals("Ongoing") && System.currentTimeMillis() < until) {
            Thread.sleep(20);
        }
        List<Object> found = new ArrayList<>(List.of(settled("late")));
        found.addAll(afterwards(producer));
        producer.close(Duration.ZERO);
        try (KafkaProducer<String, String> again = producer("late", 60_000)) {
            again.initTransactions();
            again.beginTransaction();
            again.send(new ProducerRecord<>(TOPIC, 1, null, "in time")).get();
            again.commitTransaction();
            settled("late");
        }
        report.put("timed out", found);
        try (KafkaProducer<String, String> endless = producer("endless", 2_000_000_000)) {
            report.put("timeout too long", outcome(() -> { endless.initTransactions(); return null; }));
        }
    }

    /** The broker refuses a record: the transaction can only be aborted, and the next one goes on. */
    static void refusedRecord() throws Exception {
        try (KafkaProducer<String, String> producer = producer("refused", 60_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, null, "before refused"));
            List<Object> found = new ArrayList<>();
            String large = "x".repeat(2 << 20);
            found.add(outcome(() -> producer.send(new ProducerRecord<>(TOPIC, 0, null, large)).get()));
            Thread.sleep(200);  // the client's other thread may still be about to note the error
            found.add(outcome(() -> { producer.commitTransaction(); return null; }));
            found.add(outcome(() -> { producer.abortTransaction(); return null; }));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, null, "after refused"));
            found.add(outcome(() -> { producer.commitTransaction(); return null; }));
            report.put("refused record", found);
        }
    }

    /** What a producer that is in a transaction and has been overtaken hears. */
    static List<Object> afterwards(KafkaProducer<String, String> producer) {
        List<Object> found = new ArrayList<>();
        found.add(outcome(() -> producer.send(new ProducerRecord<>(TOPIC, 0, null, "never")).get()));
        found.add(outcome(() -> { producer.commitTransaction(); return null; }));
        found.add(outcome(() -> { producer.abortTransaction(); return null; }));
        found.add(outcome(() -> { producer.beginTransaction(); return null; }));
        return found;
    }

    static String outcome(Callable<?> call) {
        try {
            call.call();
            return "done";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            String cause = error.getCause() == null ? "" : " of " + error.getCause().getClass().getSimpleName();
            return error.getClass().getSimpleName() + cause;
        }
    }

    static String settledOrOngoing(String name) throws Exception {
        TransactionDescription found = admin.describeTransactions(List.of(name)).description(name).get();
        return found.state().toString();
    }

    /** The state once the markers are written, which is after the client hears of its commit: what follows them is in order. */
    static String settled(String name) throws Exception {
        String state = settledOrOngoing(name);
        for (long until = System.currentTimeMillis() + WAIT_MS;
             state.startsWith("Prepare") && System.currentTimeMillis() < until;
             state = settledOrOngoing(name)) {
            Thread.sleep(20);
        }
        return state;
    }

    static KafkaProducer<String, String> producer(String name, int timeoutMs) {
        return new KafkaProducer<>(Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", name,
            "transaction.timeout.ms", timeoutMs,
            "max.request.size", 8 << 20,
            "retry.backoff.ms", 20), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> reader(String isolation) {
        return new KafkaConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "enable.auto.commit", false),
            new StringDeserializer(), new StringDeserializer());
    }

    static List<String> poll(KafkaConsumer<String, String> reader) {
        List<String> values = new ArrayList<>();
        for (long until = System.currentTimeMillis() + WAIT_MS;
             values.isEmpty() && System.currentTimeMillis() < until;) {
            for (ConsumerRecord<String, String> each : reader.poll(Duration.ofMillis(200))) {
                values.add(each.value());
            }
        }
        return values;
    }

    /** What a reader sees in each partition, and where it ends. */
    static Map<String, Object> values(String isolation) {
        Map<String, Object> found = new HashMap<>();
        try (KafkaConsumer<String, String> reader = reader(isolation)) {
            for (TopicPartition partition : List.of(FIRST, SECOND)) {
                reader.assign(List.of(partition));
                reader.seekToBeginning(List.of(partition));
                long end = reader.endOffsets(List.of(partition)).get(partition);
                List<String> values = new ArrayList<>();
                for (long until = System.currentTimeMillis() + WAIT_MS;
                     reader.position(partition) < end && System.currentTimeMillis() < until;) {
                    for (ConsumerRecord<String, String> each : reader.poll(Duration.ofMillis(200))) {
                        values.add(each.offset() + " " + each.value());
                    }
                }
                found.put(partition.toString(), List.of(end, values));
            }
        }
        return found;
    }
}
