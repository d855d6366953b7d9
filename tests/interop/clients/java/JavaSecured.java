// A user's jobs on a secured listener (../README.md) with Kafka's own client: java -cp 'JARS/*' JavaSecured.java

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaSecured {
    static final int PARTITIONS = 2;
    static final int WAIT_MS = 20_000;
    static final String MODULE = "org.apache.kafka.common.security.";
    static final Path TOKEN_FILE = temporaryFile();

    public static void main(String[] args) throws Exception {
        // before the first client: it reads the list once
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", TOKEN_FILE.toString());
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", TOKEN_FILE.toUri().toString());
        ObjectMapper json = new ObjectMapper();
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine())
            System.out.println(json.writeValueAsString(report(json.readTree(line))));
    }

    static Map<String, Object> report(JsonNode job) throws Exception {
        Map<String, Object> config = config(job, job.get("user").asText(), job.get("secret").asText(), false);
        Map<String, Object> report = new LinkedHashMap<>();
        if (job.get("delegation").asBoolean()) {
            DelegationToken token = newToken(config);
            report.put("token", tokenReport(config, token));
            config = config(job, token.tokenInfo().tokenId(), token.hmacAsBase64String(), true);
            take(job, config, report);
            try (Admin admin = Admin.create(config)) {
                report.put("token_of_token", error(admin.createDelegationToken().delegationToken()));
            }
        } else {
            take(job, config, report);
        }
        if (!job.get("wrong").asText().isEmpty())
            report.put("turned_away", turnedAway(config(job, job.get("user").asText(), job.get("wrong").asText(), false)));
        return report;
    }

    static void take(JsonNode job, Map<String, Object> config, Map<String, Object> report) throws Exception {
        String name = job.get("name").asText();
        try (Admin admin = Admin.create(config)) {
            report.put("refused", error(admin.createTopics(List.of(topic(job.get("forbidden").asText()))).all()));
            admin.createTopics(List.of(topic(name))).all().get();
            report.put("topics", admin.listTopics().names().get());
        }
        try (var producer = producer(config)) {
            for (JsonNode value : job.get("values"))
                producer.send(new ProducerRecord<>(name, value.asText())).get();
        }
        config.put("transactional.id", name);
        try (var producer = producer(config)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, job.get("kept").asText())).get();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, job.get("lost").asText())).get();
            producer.abortTransaction();
        }
        config.remove("transactional.id");
        report.put("read", read(config, name, job.get("values").size() + 1));
    }

    static List<String> read(Map<String, Object> config, String name, int count) {
        Map<String, Object> reading = new HashMap<>(config);
        reading.putAll(Map.of("group.id", name, "auto.offset.reset", "earliest", "isolation.level", "read_committed"));
        List<String> found = new ArrayList<>();
        long end = System.currentTimeMillis() + WAIT_MS;
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(name));
            while (found.size() < count && System.currentTimeMillis() < end)
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500)))
                    found.add(each.value());
            consumer.commitSync();
        }
        return found;
    }

    static DelegationToken newToken(Map<String, Object> config) throws Exception {
        var options = new CreateDelegationTokenOptions().renewers(List.of(new KafkaPrincipal("User", "renata")));
        try (Admin admin = Admin.create(config)) {
            return admin.createDelegationToken(options).delegationToken().get();
        }
    }

    // What the token's owner is told of it, and whether she can renew it.
    static Map<String, Object> tokenReport(Map<String, Object> config, DelegationToken token) throws Exception {
        try (Admin admin = Admin.create(config)) {
            long renewed = admin.renewDelegationToken(token.hmac()).expiryTimestamp().get();
            List<DelegationToken> all = admin.describeDelegationToken().delegationTokens().get();
            var found = all.stream().filter(each -> each.tokenInfo().tokenId().equals(token.tokenInfo().tokenId()));
            var info = found.findFirst().orElseThrow().tokenInfo();
            boolean later = renewed >= token.tokenInfo().expiryTimestamp() && renewed <= info.maxTimestamp();
            return Map.of("owner", info.ownerAsString(), "renewers", info.renewersAsString(), "renewed", later);
        }
    }

    static String turnedAway(Map<String, Object> config) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.listTopics().names().get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof AuthenticationException)
                return e.getCause().getMessage();
            throw e;
        }
        return "";
    }

    static Map<String, Object> config(JsonNode job, String user, String secret, boolean isToken) throws Exception {
        String mechanism = job.get("mechanism").asText();
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", job.get("bootstrap").asText());
        config.put("security.protocol", mechanism.isEmpty() ? "SSL" : "SASL_SSL");
        config.put("ssl.truststore.type", "PEM");
        config.put("ssl.truststore.location", job.get("ca").asText());
        config.put("enable.metrics.push", "false");
        if (!job.get("keys").asText().isEmpty()) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.location", job.get("keys").asText());
        }
        if (mechanism.equals("OAUTHBEARER")) {
            Files.writeString(TOKEN_FILE, secret);
            config.put("sasl.oauthbearer.token.endpoint.url", TOKEN_FILE.toUri().toString());
            config.put("sasl.login.callback.handler.class", MODULE + "oauthbearer.OAuthBearerLoginCallbackHandler");
            config.put("sasl.jaas.config", MODULE + "oauthbearer.OAuthBearerLoginModule required;");
        } else if (!mechanism.isEmpty()) {
            String login = " required username=\"%s\" password=\"%s\"%s;".formatted(
                user, secret, isToken ? " tokenauth=\"true\"" : "");
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            config.put("sasl.jaas.config", MODULE + module + login);
        }
        if (!mechanism.isEmpty())
            config.put("sasl.mechanism", mechanism);
        return config;
    }

    static NewTopic topic(String name) {
        return new NewTopic(name, PARTITIONS, (short) 1);
    }

    static KafkaProducer<String, String> producer(Map<String, Object> config) {
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    static int error(Future<?> future) throws InterruptedException {
        try {
            future.get();
            return 0;
        } catch (ExecutionException e) {
            return Errors.forException(e.getCause()).code();
        }
    }

    static Path temporaryFile() {
        try {
            Path file = Files.createTempFile("token", ".jwt");
            file.toFile().deleteOnExit();
            return file;
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
