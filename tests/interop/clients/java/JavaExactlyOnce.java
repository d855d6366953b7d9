// Consume, process, produce, exactly once, with Kafka's own Java client: until it is killed, or an error that a new
// producer cures: java -cp 'JARS/*' JavaExactlyOnce.java BOOTSTRAP [GROUP PROTOCOL]
// From each partition of `input` to the same one of `output`. An error that only ends a transaction is answered as the
// documentation of KafkaProducer does: abort, and go back to what is committed.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaExactlyOnce {

    public static void main(String[] args) {
        try {
            run(args[0], args.length > 1 ? args[1] : "classic");
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void run(String bootstrap, String protocol) {
        Map<String, Object> options = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "loop",
            "group.protocol", protocol,
            "isolation.level", "read_committed",
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "max.poll.records", 20,
            "reconnect.backoff.max.ms", 200));
        if (protocol.equals("classic")) {
            options.putAll(Map.of("session.timeout.ms", 2000, "heartbeat.interval.ms", 300));
        }
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "transactional.id", "loop", "reconnect.backoff.max.ms", 200),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of("input"));
        System.out.println("ready");
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                process(consumer, producer, records);
            }
        }
    }

    static void process(
        KafkaConsumer<String, String> consumer,
        KafkaProducer<String, String> producer,
        ConsumerRecords<String, String> records
    ) {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition partition : records.partitions()) {
                for (ConsumerRecord<String, String> each : records.records(partition)) {
                    producer.send(new ProducerRecord<>("output", partition.partition(), null, each.value()));
                    offsets.put(partition, new OffsetAndMetadata(each.offset() + 1));
                }
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException error) {
            throw error;
        } catch (KafkaException error) {
            System.err.println("aborted: " + error);
            producer.abortTransaction();
            rewind(consumer);
        }
    }

    static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            if (offset == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, offset);
            }
        }
    }
}
