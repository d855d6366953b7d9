import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.security.URIParameter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.x500.X500Principal;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtValidatorException;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;
import org.apache.kafka.common.security.oauthbearer.internals.secured.CloseableVerificationKeyResolver;
import org.apache.kafka.common.security.plain.PlainAuthenticateCallback;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.ScramExtensionsCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCredentialCallback;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.security.DelegationTokenManager;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.jose4j.jwk.JsonWebKeySet;
import org.jose4j.jws.JsonWebSignature;
import org.jose4j.jwx.JsonWebStructure;
import org.jose4j.keys.resolvers.JwksVerificationKeyResolver;
import org.jose4j.lang.UnresolvableKeyException;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * What Kafka's classes of security decide: a question a line, an answer a line, JSON (see tests/security/oracle.py).
 * Run from source: java -Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=trace -cp 'jars/*' SecurityOracle.java
 */
public class SecurityOracle {
    static final int SECONDS_MAX = 2;
    static final ByteArrayOutputStream logged = new ByteArrayOutputStream();

    public static void main(String[] ignored) {
        PrintStream complaints = System.err;
        System.setErr(new PrintStream(logged, true, UTF_8));
        int status = 0;
        try {
            answer();
        } catch (Throwable failed) {
            failed.printStackTrace(complaints);
            status = 1;
        }
        System.exit(status);  // an access that Kafka never decides leaves a thread behind
    }

    static void answer() throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = json.readTree(line);
            Object answer = switch (question.get("ask").asText()) {
                case "authorize" -> authorize(question);
                case "principal" -> principal(question);
                case "name" -> name(question);
                case "jaas" -> jaas(question);
                case "jaas-file" -> jaasFile(question);
                case "token" -> token(question);
                case "jwt" -> jwt(question);
                case "oauth-message" -> oauthMessage(question);
                case "sasl-begin" -> saslBegin(question);
                case "sasl-server" -> saslServer(question);
                case "sasl-client" -> saslClient(question);
                default -> throw new IllegalArgumentException(line);
            };
            System.out.write((json.writeValueAsString(answer) + "\n").getBytes(UTF_8));
            System.out.flush();
        }
    }

    /** The answers to the steps of one authorizer's life: accesses and changes of its ACLs. */
    static List<Object> authorize(JsonNode question) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        Map<String, String> configs = new HashMap<>();
        question.get("configs").properties().forEach(each -> configs.put(each.getKey(), each.getValue().asText()));
        try {
            authorizer.configure(configs);
        } catch (IllegalArgumentException refused) {
            return List.of(refused.getMessage());
        }
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        List<Object> answers = new ArrayList<>();
        for (JsonNode step : question.get("steps")) {
            switch (step.get(0).asText()) {
                case "add" -> authorizer.addAcl(id(step.get(1)), acl(step.get(2)));
                case "remove" -> authorizer.removeAcl(id(step.get(1)));
                case "access" -> answers.add(access(authorizer, step));
                case "type" -> answers.add(AuthorizationResult.ALLOWED == authorizer.authorizeByResourceType(
                    new Context(step.get(1).asText(), step.get(2).asText()),
                    AclOperation.fromCode((byte) step.get(3).asInt()),
                    ResourceType.fromCode((byte) step.get(4).asInt())));
                default -> throw new IllegalArgumentException(step.toString());
            }
        }
        return answers;
    }

    /** The text of a certificate's name, null for bytes that are none. */
    static String name(JsonNode question) {
        try {
            return new X500Principal(HexFormat.of().parseHex(question.get("name").asText())).getName();
        } catch (IllegalArgumentException none) {
            return null;
        }
    }

    /** The principal's name of each distinguished name, null where no rule applies, or what is wrong with the rules. */
    static Object principal(JsonNode question) throws Exception {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(question.get("rules").asText());
        } catch (IllegalArgumentException refused) {
            return refused.getMessage();
        }
        List<String> names = new ArrayList<>();
        for (JsonNode name : question.get("names")) {
            try {
                names.add(mapper.getName(name.asText()));
            } catch (SslPrincipalMapper.NoMatchingRule none) {
                names.add(null);
            } catch (IllegalArgumentException | IndexOutOfBoundsException failed) {
                return failed.getMessage();
            }
        }
        return names;
    }

    /** The login modules of a text, or what is wrong with it. */
    static Object jaas(JsonNode question) throws Exception {
        var constructor = Class.forName("org.apache.kafka.common.security.JaasConfig")
            .getDeclaredConstructor(String.class, String.class);
        constructor.setAccessible(true);
        try {
            return entries((Configuration) constructor.newInstance("KafkaServer", question.get("text").asText()),
                "KafkaServer");
        } catch (InvocationTargetException refused) {
            return String.valueOf(refused.getCause().getMessage());
        }
    }

    /** The login modules of the sections in a JAAS file that have some, or what Java finds wrong with it. */
    static Object jaasFile(JsonNode question) throws Exception {
        Path file = Files.createTempFile("jaas", ".conf");
        try {
            Files.writeString(file, question.get("text").asText());
            var config = Configuration.getInstance("JavaLoginConfig", new URIParameter(file.toUri()));
            Map<String, Object> sections = new HashMap<>();
            for (JsonNode name : question.get("names")) {
                if (config.getAppConfigurationEntry(name.asText()) != null) {
                    sections.put(name.asText(), entries(config, name.asText()));
                }
            }
            return sections;
        } catch (NoSuchAlgorithmException refused) {
            return String.valueOf(refused.getCause().getMessage());
        } finally {
            Files.delete(file);
        }
    }

    static List<Object> entries(Configuration config, String name) {
        List<Object> modules = new ArrayList<>();
        for (AppConfigurationEntry entry : config.getAppConfigurationEntry(name)) {
            Map<String, Object> options = new HashMap<>(entry.getOptions());
            options.remove(null);
            modules.add(List.of(entry.getLoginModuleName(), entry.getControlFlag().toString(), options));
        }
        return modules;
    }

    static Callable<SaslServer> newServer;
    static SaslServer server;
    static SaslClient client;

    /** Begin an exchange: a server that knows one user, and a client that logs in as that user. */
    static Object saslBegin(JsonNode question) throws Exception {
        String name = question.get("name").asText();
        String password = question.get("password").asText();
        String mechanismName = question.get("mechanism").asText();
        if (mechanismName.equals("PLAIN")) {
            newServer = () -> new PlainSaslServer(callbacks -> {
                String given = ((NameCallback) callbacks[0]).getDefaultName();
                var plain = (PlainAuthenticateCallback) callbacks[1];
                plain.authenticated(given.equals(name) && Arrays.equals(plain.password(), password.toCharArray()));
            });
            return true;
        }
        ScramMechanism mechanism = ScramMechanism.forMechanismName(mechanismName);
        var formatter = new ScramFormatter(mechanism);
        var credential = formatter.generateCredential(password, question.get("iterations").asInt());
        boolean token = question.get("token").asBoolean();
        newServer = () -> new ScramSaslServer(mechanism, Map.of(), callbacks -> {
            boolean known = ((NameCallback) callbacks[0]).getDefaultName().equals(name);
            if (callbacks[1] instanceof DelegationTokenCredentialCallback found && known && token) {
                found.scramCredential(credential);
                found.tokenOwner("owner");
                found.tokenExpiryTimestamp(7L);
            } else if (callbacks[1] instanceof ScramCredentialCallback found && known && !token) {
                found.scramCredential(credential);
            }
        });
        client = new ScramSaslClient(mechanism, callbacks -> {
            for (var callback : callbacks) {
                if (callback instanceof NameCallback asked)
                    asked.setName(name);
                else if (callback instanceof PasswordCallback asked)
                    asked.setPassword(password.toCharArray());
                else if (callback instanceof ScramExtensionsCallback asked)
                    asked.extensions(token ? Map.of("tokenauth", "true") : Map.of());
            }
        });
        return List.of(
            Base64.getEncoder().encodeToString(credential.salt()),
            Base64.getEncoder().encodeToString(credential.storedKey()),
            Base64.getEncoder().encodeToString(credential.serverKey()));
    }

    /** The server's answer, and who has logged in; or why the exchange has failed, and its error message. */
    static Object saslServer(JsonNode question) throws Exception {
        if (question.get("anew").asBoolean())
            server = newServer.call();
        try {
            byte[] answer = server.evaluateResponse(Base64.getDecoder().decode(question.get("message").asText()));
            return List.of(
                Base64.getEncoder().encodeToString(answer), server.isComplete() ? server.getAuthorizationID() : "");
        } catch (SaslAuthenticationException failed) {
            return Map.of("error_message", failed.getMessage());
        } catch (Exception failed) {
            return Map.of("failed", String.valueOf(failed.getMessage()));
        }
    }

    /** The client's next message, "" for none, and whether it is content; or why it is not. */
    static Object saslClient(JsonNode question) {
        try {
            byte[] answer = client.evaluateChallenge(Base64.getDecoder().decode(question.get("message").asText()));
            return List.of(
                answer == null ? "" : Base64.getEncoder().encodeToString(answer), client.isComplete());
        } catch (Exception failed) {
            return Map.of("failed", String.valueOf(failed.getMessage()));
        }
    }

    /** Name, expiry and scopes of a JWT that is valid with these keys; or why it is not. */
    static Object jwt(JsonNode question) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.oauthbearer.clock.skew.seconds", 30);
        configs.put("sasl.oauthbearer.scope.claim.name", "scope");
        configs.put("sasl.oauthbearer.sub.claim.name", question.get("sub_claim").asText());
        List<String> audiences = new ArrayList<>();
        question.get("audiences").forEach(each -> audiences.add(each.asText()));
        configs.put("sasl.oauthbearer.expected.audience", audiences);
        if (question.get("issuer").isTextual())
            configs.put("sasl.oauthbearer.expected.issuer", question.get("issuer").asText());
        var keys = new JwksVerificationKeyResolver(
            new JsonWebKeySet(question.get("jwks").asText()).getJsonWebKeys());
        CloseableVerificationKeyResolver resolver = new CloseableVerificationKeyResolver() {
            @Override
            public Key resolveKey(JsonWebSignature jws, List<JsonWebStructure> nesting)
                    throws UnresolvableKeyException {
                return keys.resolveKey(jws, nesting);
            }
        };
        var constructor = BrokerJwtValidator.class.getDeclaredConstructor(CloseableVerificationKeyResolver.class);
        constructor.setAccessible(true);
        var validator = constructor.newInstance(resolver);
        validator.configure(configs, "OAUTHBEARER", List.of());
        try {
            var token = validator.validate(question.get("token").asText());
            return List.of(token.principalName(), token.lifetimeMs(), new TreeSet<>(token.scope()));
        } catch (JwtValidatorException | ClassCastException | ArithmeticException refused) {
            return String.valueOf(refused.getMessage());
        }
    }

    /** Authorization id and token of a client's first message, or what is wrong with it. */
    static Object oauthMessage(JsonNode question) {
        try {
            var message = new OAuthBearerClientInitialResponse(question.get("message").asText().getBytes(UTF_8));
            return List.of(message.authorizationId(), message.tokenValue());
        } catch (SaslException | IllegalArgumentException refused) {  // the latter for another scheme than Bearer
            return refused.getMessage();
        }
    }

    /** The HMAC of a token, and for each principal whether it is the owner or a renewer of the token. */
    static Object token(JsonNode question) {
        String tokenId = question.get("token").asText();
        byte[] key = question.get("key").asText().getBytes(UTF_8);
        byte[] hmac = DelegationTokenManager.createHmac(tokenId, new SecretKeySpec(key, "HmacSHA512"));
        List<KafkaPrincipal> principals = new ArrayList<>();
        question.get("principals").forEach(each -> principals.add(SecurityUtils.parseKafkaPrincipal(each.asText())));
        var token = new TokenInformation(
            tokenId, principals.get(0), principals.get(1), List.of(principals.get(2)), 0, 1_000, 500);
        return List.of(
            Base64.getEncoder().encodeToString(hmac), principals.stream().map(token::ownerOrRenewer).toList());
    }

    static Uuid id(JsonNode number) {
        return new Uuid(1, number.asLong());
    }

    static StandardAcl acl(JsonNode fields) {
        return StandardAcl.fromRecord(new AccessControlEntryRecord()
            .setResourceType((byte) fields.get(0).asInt())
            .setResourceName(fields.get(1).asText())
            .setPatternType((byte) fields.get(2).asInt())
            .setPrincipal(fields.get(3).asText())
            .setHost(fields.get(4).asText())
            .setOperation((byte) fields.get(5).asInt())
            .setPermissionType((byte) fields.get(6).asInt()));
    }

    /** The audit line of an access, the name of the exception, or that Kafka does not come to an end. */
    static String access(StandardAuthorizer authorizer, JsonNode step) throws Exception {
        Action action = new Action(
            AclOperation.fromCode((byte) step.get(3).asInt()),
            new ResourcePattern(
                ResourceType.fromCode((byte) step.get(4).asInt()), step.get(5).asText(), PatternType.LITERAL),
            1, true, true);
        Context context = new Context(step.get(1).asText(), step.get(2).asText());
        logged.reset();
        FutureTask<String> task = new FutureTask<>(() -> {
            try {
                authorizer.authorize(context, List.of(action));
                String line = logged.toString(UTF_8);
                return line.substring(line.indexOf("Principal = ")).stripTrailing();
            } catch (RuntimeException failed) {
                return failed.getClass().getName();
            }
        });
        if (step.size() == 6) {
            task.run();
            return task.get();
        }
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(SECONDS_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException endless) {
            return "endless";
        }
    }

    record Context(String name, String host) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            return SecurityUtils.parseKafkaPrincipal(name);
        }

        @Override
        public InetAddress clientAddress() {
            try {
                return InetAddress.getByName(host);
            } catch (java.net.UnknownHostException never) {
                throw new IllegalArgumentException(never);
            }
        }

        @Override
        public int requestType() {
            return 1;
        }

        @Override
        public int requestVersion() {
            return 12;
        }

        @Override
        public String clientId() {
            return "client";
        }

        @Override
        public int correlationId() {
            return 1;
        }
    }
}
