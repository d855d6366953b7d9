import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What kafka-consumer-perf-test does, on assigned partitions: reads a topic from its start, prints seconds and bytes. */
public class Consume {
    public static void main(String[] args) {
        String topic = args[1];
        long wanted = Long.parseLong(args[2]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("receive.buffer.bytes", "2097152");
        properties.put("max.partition.fetch.bytes", "1048576");
        properties.put("enable.auto.commit", "false");
        properties.put("check.crcs", "false");
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            for (int round = 0; round < Integer.parseInt(args[3]); round++) {
                consumer.seekToBeginning(partitions);
                long count = 0, bytes = 0, began = System.nanoTime();
                while (count < wanted) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(10));
                    if (records.isEmpty()) throw new IllegalStateException("only " + count + " records");
                    for (var record : records) {
                        count++;
                        bytes += record.value().length;
                    }
                }
                System.out.println((System.nanoTime() - began) / 1e9 + " " + bytes);
            }
        }
    }
}
