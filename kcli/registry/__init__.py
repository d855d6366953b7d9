"""A schema registry as Confluent's clients know it, on Kafka's own topic `_schemas`.

What decides, without I/O and without a clock:

api           `handle`: the image and a request in, an answer or a change out. Start here
routing       which handler a request goes to: contexts in its path, aliases, media types
subjects, schemas, registering, compatibilities, configs, modes, about
              the handlers, by the first segment of their paths
views         the schema of a request, and the form in which an answer shows it
checking      whether a schema may follow those of its subject
lookups       whether a schema is registered already; references with their texts
settings      the configuration and the mode that apply to a subject
image         the state that replay makes of `_schemas`: subjects, ids, guids, references, settings
parsed_cache  a cache of parsed schemas
drafts        a schema in a request or an answer
records       keys and values of `_schemas`, byte for byte
metadata      metadata and rule sets
calls, messages, fields, errors, names
              requests and answers, refusals, names of subjects and contexts

What serves:

server        listeners, and a registry from its start to its end; in_broker: one in a broker's process
service       requests to the image, changes to the log, writes to the leader
access        logins and ACLs
log           the topic: made or checked, read for ever, appended to by one registry at a time. How older leaders are
              fenced stands there
leader        the election, by Confluent's group protocol; forward: a request to whoever leads
config        the configurations, by Confluent's names

HTTP, JSON and the requests to brokers are in kcli.service.

What needs no server:

files         what the files of `_schemas` in a log directory say

The server appends a Change's records to `_schemas`, replays them into the image as it replays everybody else's, and
then gives the answer. State is never built any other way.

Rule sets are stored and returned, which the open edition of Confluent's registry does not do. Tags inside schemas,
associations, exporters and encryption keys are not part of this registry.
"""
