// Load for groups.py, with Kafka's own Java clients: how much of it is done in each round of so many seconds.
//
//     GroupLoad commits BOOTSTRAP TOPIC CLIENTS ROUND_S ROUNDS        consumers that commit, each waits for its answer
//     GroupLoad transactions BOOTSTRAP TOPIC CLIENTS ROUND_S ROUNDS   producers, 100 records of 100 bytes a transaction
//
// Prints a line a round: commits, or records, a second.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class GroupLoad {
    static final int RECORDS = 100;
    static final int RECORD_BYTES = 100;
    static final AtomicLong done = new AtomicLong();

    public static void main(String[] args) throws Exception {
        String bootstrap = args[1], topic = args[2];
        int clients = Integer.parseInt(args[3]), rounds = Integer.parseInt(args[5]);
        long roundMs = Math.round(Double.parseDouble(args[4]) * 1000);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            String name = args[0] + "-" + i;
            boolean commits = args[0].equals("commits");
            Thread thread = new Thread(commits ? () -> commit(bootstrap, topic, name) : () -> transact(bootstrap, topic, name));
            thread.setDaemon(true);
            thread.setUncaughtExceptionHandler((failed, error) -> {
                error.printStackTrace();
                System.exit(1);
            });
            threads.add(thread);
        }
        threads.forEach(Thread::start);
        while (done.get() == 0) {
            Thread.sleep(1);
        }
        for (int i = 0; i < rounds; i++) {
            long before = done.get(), began = System.nanoTime();
            Thread.sleep(roundMs);
            System.out.println((done.get() - before) / ((System.nanoTime() - began) / 1e9));
        }
        System.exit(0);
    }

    static void commit(String bootstrap, String topic, String name) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", name);
        config.put("enable.auto.commit", false);
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.assign(List.of(partition));
            for (long offset = 0; ; offset++) {
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset)), Duration.ofSeconds(30));
                done.incrementAndGet();
            }
        }
    }

    static void transact(String bootstrap, String topic, String name) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", name);
        config.put("max.block.ms", 300_000);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        while (true) {
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
                transact(producer, topic);
            } catch (InvalidTxnStateException refused) {  // now and then, of either broker; why is not proven
                System.err.println(name + ": " + refused);
            }
        }
    }

    static void transact(KafkaProducer<byte[], byte[]> producer, String topic) {
        byte[] value = new byte[RECORD_BYTES];
        producer.initTransactions();
        while (true) {
            producer.beginTransaction();
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(topic, value));
            }
            producer.commitTransaction();
            done.addAndGet(RECORDS);
        }
    }
}
