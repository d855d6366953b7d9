import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/**
 * Has Aiven's RemoteStorageManager copy segments: WriteSegments CONFIG SEGMENTS.
 *
 * CONFIG has the plugin's properties. A line of SEGMENTS is a segment of LocalTieredStorage, between tabs: topic,
 * partition, topic id, segment id, first and last offset, largest timestamp, broker, size, leader epochs as
 * EPOCH:OFFSET,..., and the path of its objects without a suffix.
 */
public class WriteSegments {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(args[0]))) {
            properties.load(reader);
        }
        Map<String, Object> config = new HashMap<>();
        properties.forEach((name, value) -> config.put((String) name, value));
        try (var manager = new io.aiven.kafka.tieredstorage.RemoteStorageManager()) {
            manager.configure(config);
            for (String line : Files.readAllLines(Path.of(args[1]))) {
                String[] field = line.split("\t");
                Map<Integer, Long> epochs = new TreeMap<>();
                for (String entry : field[9].split(",")) {
                    epochs.put(Integer.parseInt(entry.split(":")[0]), Long.parseLong(entry.split(":")[1]));
                }
                var partition = new TopicPartition(field[0], Integer.parseInt(field[1]));
                var id = new RemoteLogSegmentId(
                    new TopicIdPartition(Uuid.fromString(field[2]), partition), Uuid.fromString(field[3]));
                var metadata = new RemoteLogSegmentMetadata(
                    id, Long.parseLong(field[4]), Long.parseLong(field[5]), Long.parseLong(field[6]),
                    Integer.parseInt(field[7]), 1700000000000L, Integer.parseInt(field[8]), epochs);
                Path txnIndex = Path.of(field[10] + ".txnindex");
                manager.copyLogSegmentData(metadata, new LogSegmentData(
                    Path.of(field[10] + ".log"), Path.of(field[10] + ".index"), Path.of(field[10] + ".timeindex"),
                    Files.exists(txnIndex) ? Optional.of(txnIndex) : Optional.empty(), Path.of(field[10] + ".snapshot"),
                    ByteBuffer.wrap(Files.readAllBytes(Path.of(field[10] + ".leader_epoch_checkpoint")))));
            }
        }
    }
}
