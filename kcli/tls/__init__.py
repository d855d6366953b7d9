"""TLS by Kafka's settings: keys, trusted certificates, and the `ssl.SSLContext` made of them.

settings       the settings ssl.*: read, checked, and refused by name if kcli does not support them
key_stores     private keys and trusted certificates: PEM, PKCS #12, JKS; from files or from the settings themselves
cipher_suites  translates Java's names of cipher suites to OpenSSL's
contexts       makes a context of the settings, for a listener or for connections to other nodes
replacement    whether the context of a listener may be replaced while the listener runs
failures       why a handshake has failed, in one line
certificates   makes an authority and the certificates that it signs, for `kcli serve --secure` and for tests

Read `contexts` first. All files are read here; what is decided about a peer once its certificate is valid is in
kcli/security (distinguished_name, principal_mapping).
"""
