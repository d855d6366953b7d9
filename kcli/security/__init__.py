"""Kafka's authentication and authorization, decided without I/O and without a clock.

principals          a principal: its type and name, as "User:alice"
acls                one ACL, its codes, and its order among other ACLs
acl_filter          which ACLs DescribeAcls and DeleteAcls select
acl_index           the ACLs of the metadata image, found by resource, principal and host
authorizer          Kafka's StandardAuthorizer: which rule decides whether an access is allowed
explanation         which rule decides an access, for a person to read
acl_options         converts the options of kafka-acls to ACLs and filters of ACLs
audit               the lines of kafka.authorizer.logger

distinguished_name  the subject of a certificate as text, as Java writes it
principal_mapping   ssl.principal.mapping.rules: maps the subject of a certificate to a principal's name
jaas                sasl.jaas.config: a login module and its options

sasl                how an exchange goes on and ends, for all mechanisms
plain               PLAIN, the server's side
scram               SCRAM-SHA-256 and SCRAM-SHA-512, the server's side, and what is stored of a password
scram_argument      the users of kcli format --add-scram
scram_client        SCRAM, the client's side
client_login        a login of kcli's own connections
oauth               OAUTHBEARER, the server's side, and the claims of a token
oauth_client        OAUTHBEARER, the client's side, and the request for a token
jwt                 the signature of a token, by the keys of a JWKS
delegation_tokens   the HMACs of delegation tokens, and the credentials against which logins with them are checked

Read `authorizer` first. The decisions made here were compared with those of Kafka's own classes: tests/security has
Kafka's answers; test_security_oracle_kafka.py, test_sasl_kafka.py and test_oauth_kafka.py of tests/interop run the
classes.
"""
