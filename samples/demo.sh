#!/usr/bin/env bash
# make demo: what kcli shows of the samples. Prints each command, then its output; fails if a command ends in an unexpected way.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# run EXIT COMMAND...: show a command and run it; it must end with EXIT
run() {
    local expected=$1 status=0
    shift
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    "$@" || status=$?
    if [ "$status" -ne "$expected" ]; then
        echo "demo: exit status $status, expected $expected" >&2
        exit 1
    fi
}

say() { printf '\n# %s\n' "$*"; }

say "A topic compressed with zstd: its batches and records"
run 0 kcli dump-segment good/java-zstd-0/00000000000000000000.log --limit 8

say "The same records as JSON lines, for other programs: nothing is lost"
run 0 kcli dump-segment --format jsonl good/java-zstd-0/00000000000000000000.log --limit 3

say "As kafka-dump-log prints it, line for line, without a JVM"
run 0 kcli dump-segment --format kafka --print-data-log good/t-txn-0/00000000000000000072.log

say "Every other file too: an index, producer state, aborted transactions, a snapshot of the metadata"
run 0 kcli dump-segment good/t-txn-0/00000000000000000004.txnindex
run 0 kcli dump-segment good/t-txn-0/00000000000000000072.snapshot
run 0 kcli dump-segment good/__cluster_metadata-0/00000000000000000034-0000000001.checkpoint --limit 6

say "Internal topics are decoded: who committed which offset"
run 0 kcli dump-segment good/__consumer_offsets-0/00000000000000000000.log --limit 6

say "Is all of it sound?"
run 0 kcli verify good

say "What a flipped bit, a lost page and a lying index look like (exit status 1: there are findings)"
run 1 kcli verify broken/crc-field-flip-0
run 1 kcli verify broken/zero-page-in-middle-0
run 1 kcli verify broken/index-position-past-end-0

say "A zip bomb is a finding, not a crash"
run 1 kcli verify broken/bomb-zstd-1gib-0

say "What would Kafka cut off this log when it starts? (exit status 1: records would be lost)"
run 1 kcli recover broken/zero-page-in-middle-0

say "Recover a copy, and keep the sound batches behind the damage, which Kafka would lose"
rescue=$(mktemp -d)
trap 'rm -rf "$rescue"' EXIT
run 0 kcli recover --salvage --out "$rescue/zero-page-in-middle-0" broken/zero-page-in-middle-0
run 0 kcli recover "$rescue/zero-page-in-middle-0"

say "What would Kafka's log cleaner drop here, and why?"
run 0 kcli compact good/t-txn-0 -o cleanup.policy=compact --now 2026-11-22T00:00:00Z

say "Why is this key still there?"
run 0 kcli compact good/t-txn-0 -o cleanup.policy=compact --now 2026-11-22T00:00:00Z --why key-003

say "Compact a copy, byte for byte as Kafka would, and look whether it is sound"
run 0 kcli compact good/java-none-0 -o cleanup.policy=compact --now 2026-11-22T00:00:00Z --out "$rescue/java-none-0"
run 0 kcli verify "$rescue/java-none-0"

say "A broker of its own, up in a third of a second, no JVM"
printf '\n\033[1m$ kcli serve --data-dir data --listen 127.0.0.1:0 -o group.initial.rebalance.delay.ms=0 &\033[0m\n'
coproc BROKER {
    exec kcli serve --data-dir "$rescue/data" --listen 127.0.0.1:0 -o group.initial.rebalance.delay.ms=0 2> "$rescue/serve.log"
}
broker=$BROKER_PID
read -r ready <&"${BROKER[0]}" || { cat "$rescue/serve.log" >&2; exit 1; }
echo "$ready"
read -r _ _ address _ <<< "$ready"
export KCLI_BOOTSTRAP_SERVER=$address

say "Produce some records to it, as any client would, and consume them"
run 0 kcli topics create orders --partitions 3
for i in 1 2 3 4 5; do echo "order-$i:{\"total\": $((i * 7)).90}"; done | run 0 kcli produce orders --key-separator :
run 0 kcli consume orders --exit
run 0 kcli topics describe orders

# member NAME: a member of a group, its lines told from another's
member() {
    kcli consume orders --group billing -X heartbeat.interval.ms=100 2>&1 | sed -u "s/^/$1  /" | tee "$rescue/$1"
}

# assigned NAME TIMES: wait until a member has been assigned partitions so often
assigned() {
    for _ in {1..600}; do
        if [ "$(grep -cs assigned "$rescue/$1")" = "$2" ]; then return; fi
        sleep 0.05
    done
    echo "demo: $1 was not assigned partitions $2 times" >&2
    exit 1
}

say "A group: the first member reads all, shares with the second, and leaves it everything when it goes"
printf '\n\033[1m$ kcli consume orders --group billing &   # twice\033[0m\n'
set -m # so that each can be interrupted
member first &
first=$!
assigned first 1
member second &
second=$!
assigned second 1
run 0 kcli groups members billing
kill -INT -- "-$first"
assigned second 2
kill -INT -- "-$second"
wait "$first" "$second" || true
set +m

say "Exactly once: a program makes an invoice of each order, and is killed in the middle of a transaction"
run 137 python exactly_once.py "$address" --die

say "Its successor begins where the last transaction that was committed ends: no invoice is there twice"
run 0 python exactly_once.py "$address"
run 0 kcli consume invoices --exit
run 0 kcli transactions describe invoices-1

say "Stop it; what it wrote are Kafka's files"
kill -TERM "$broker"
wait "$broker"
run 0 kcli dump-segment "$rescue/data/orders-0" --limit 3
run 0 kcli verify "$rescue/data"

say "A broker that is closed: TLS, an admin who logs in by SCRAM, and ACLs"
unset KCLI_BOOTSTRAP_SERVER
printf '\n\033[1m$ kcli serve --secure --data-dir closed --listen 127.0.0.1:0 &\033[0m\n'
coproc CLOSED {
    exec kcli serve --secure --data-dir "$rescue/closed" --listen 127.0.0.1:0 2> "$rescue/closed.log"
}
closed=$CLOSED_PID
read -r ready <&"${CLOSED[0]}" || { cat "$rescue/closed.log" >&2; exit 1; }
echo "$ready"
read -r _ _ address _ <<< "$ready"
admin=(-b "$address" --command-config "$rescue/closed-secure/client.properties")
alice=(-b "$address" --command-config "$rescue/alice.properties")
run 0 kcli topics create orders "${admin[@]}"
echo 'order-1' | run 0 kcli produce orders "${admin[@]}"
echo 'a secret' | run 0 kcli users add alice --password-file - "${admin[@]}"
sed '/jaas/s/username=.*/username="alice" password="a secret";/' "$rescue/closed-secure/client.properties" > "$rescue/alice.properties"

say "alice may log in, and nothing else (exit status 1); which rule says so?"
run 1 kcli consume orders --exit "${alice[@]}"
run 1 kcli acls explain alice read topic:orders "${admin[@]}"
run 0 kcli acls add --allow-principal User:alice --operation read --topic orders "${admin[@]}"
run 0 kcli consume orders --exit "${alice[@]}"
echo 'order-2' | run 1 kcli produce orders "${alice[@]}"
kill -TERM "$closed"
wait "$closed"

say "Tiered storage: closed segments go to a bucket (of a small S3 server on this machine) and are deleted here"
mkdir -p "$rescue/s3/lake"
exec {s3}> >(exec python s3_server.py "$rescue/s3" > "$rescue/s3.url") # it ends when nothing can write to it any more
until [ -s "$rescue/s3.url" ]; do sleep 0.05; done
AWS_ENDPOINT_URL=$(< "$rescue/s3.url")
export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo AWS_REGION=us-east-1
storage=(
    -o remote.log.storage.system.enable=true
    -o remote.log.storage.manager.class.name=kcli.tier.ObjectStorage -o rsm.config.url=s3://lake/kafka
    -o rlmm.config.remote.log.metadata.topic.replication.factor=1 -o rlmm.config.remote.log.metadata.topic.min.isr=1
    -o remote.log.manager.task.interval.ms=200 -o log.retention.check.interval.ms=200 -o log.initial.task.delay.ms=200
)
printf '\n\033[1m$ kcli serve --data-dir tiered --listen 127.0.0.1:0 %s &\033[0m\n' "${storage[*]}"
coproc TIERED {
    exec kcli serve --data-dir "$rescue/tiered" --listen 127.0.0.1:0 "${storage[@]}" 2> "$rescue/tiered.log"
}
tiered=$TIERED_PID
read -r ready <&"${TIERED[0]}" || { cat "$rescue/tiered.log" >&2; exit 1; }
echo "$ready"
read -r _ _ address _ <<< "$ready"
run 0 kcli topics create clicks -b "$address" --config remote.storage.enable=true --config segment.bytes=1048576 --config local.retention.bytes=1
seq -f 'click %06.0f of a visitor who reads on and on, page after page' 100000 > "$rescue/clicks"
printf '\n\033[1m$ kcli produce clicks < clicks   # 100,000 lines\033[0m\n'
kcli produce clicks -b "$address" < "$rescue/clicks"
for _ in {1..600}; do
    if [ "$(find "$rescue/tiered/clicks-0" -name '*.log' | wc -l)" = 1 ]; then break; fi
    sleep 0.05
done
run 0 kcli tier list "$rescue/tiered" --tier s3://lake/kafka --topic clicks
run 0 kcli topics describe clicks --offsets -b "$address"

say "Read from the first offset on: each line is there, most of them from the bucket"
printf '\n\033[1m$ kcli consume clicks --exit --template "%%s\\n" | cmp - clicks\033[0m\n'
kcli consume clicks --exit --template '%s\n' -b "$address" | cmp - "$rescue/clicks"
kill -TERM "$tiered"
wait "$tiered"
run 0 kcli tier verify "$rescue/tiered" --tier s3://lake/kafka

say "A schema registry in the broker's process: records with a schema, on a topic that takes no others"
printf '\n\033[1m$ kcli serve --data-dir schemas --listen 127.0.0.1:0 --registry 127.0.0.1:0 &\033[0m\n'
coproc REGISTRY {
    exec kcli serve --data-dir "$rescue/schemas" --listen 127.0.0.1:0 --registry 127.0.0.1:0 2> "$rescue/schemas.log"
}
registry=$REGISTRY_PID
read -r ready <&"${REGISTRY[0]}" || { cat "$rescue/schemas.log" >&2; exit 1; }
read -r beside <&"${REGISTRY[0]}" || { cat "$rescue/schemas.log" >&2; exit 1; }
echo "$ready"
echo "  $beside"
read -r _ _ address _ <<< "$ready"
export KCLI_REGISTRY_URL=${beside##* }
run 0 kcli topics create orders --config confluent.value.schema.validation=true -b "$address"
run 0 kcli schemas register orders-value schemas/order.avsc
echo '{"id": 88121, "total": 41.9}' | run 0 kcli produce orders --value-schema orders-value -b "$address"
echo 'no schema' | run 1 kcli produce orders -b "$address"
run 1 kcli schemas register orders-value schemas/order-incompatible.avsc
run 0 kcli schemas register orders-value schemas/order-2.avsc
run 0 kcli consume orders --exit --schemas "$KCLI_REGISTRY_URL" -b "$address"
kill -TERM "$registry"
wait "$registry"
unset KCLI_REGISTRY_URL

say "The schemas are on the disk, too: no registry is needed to read the records there"
run 0 kcli schemas list --data-dir "$rescue/schemas"
run 0 kcli dump-segment "$rescue/schemas/orders-0" --schemas "$rescue/schemas"

say "A cluster of three, brokers and controllers; what is produced is on all before it is acknowledged"
printf '\n\033[1m$ kcli serve --nodes 3 --data-dir cluster --listen 127.0.0.1:0 &\033[0m\n'
coproc NODES {
    exec kcli serve --nodes 3 --data-dir "$rescue/cluster" --listen 127.0.0.1:0 2> "$rescue/nodes.log"
}
nodes=$NODES_PID
read -r ready <&"${NODES[0]}" || { cat "$rescue/nodes.log" >&2; exit 1; }
echo "$ready"
read -r _ _ addresses _ <<< "$ready"
run 0 kcli topics create payments --replica-assignment 2:3:1 --config min.insync.replicas=2 -b "$addresses"
run 0 kcli cluster status --data-dir "$rescue/cluster"

say "Kill the node that leads the topic while a program produces: it only waits a moment"
printf '\n\033[1m$ python failover.py %s payments 3 &\033[0m\n' "$addresses"
python failover.py "$addresses" payments 3 &
producer=$!
sleep 1.5
run 0 kcli cluster kill 2 --stay-down --data-dir "$rescue/cluster"
run 1 kcli cluster status --data-dir "$rescue/cluster"
wait "$producer"

say "It comes back, catches up, and the cluster stops as one"
run 0 kcli cluster start 2 --data-dir "$rescue/cluster"
run 0 kcli cluster stop --data-dir "$rescue/cluster"
wait "$nodes"
run 0 kcli verify "$rescue/cluster/node-2/data"

say "Streams: a program counts pages, and joins visits with users; each record takes effect once"
printf '\n\033[1m$ kcli serve --data-dir streams --listen 127.0.0.1:0 -o group.initial.rebalance.delay.ms=0 &\033[0m\n'
coproc STREAMS {
    exec kcli serve --data-dir "$rescue/streams" --listen 127.0.0.1:0 -o group.initial.rebalance.delay.ms=0 2> "$rescue/streams.log"
}
streams=$STREAMS_PID
read -r _ _ address _ <&"${STREAMS[0]}" || { cat "$rescue/streams.log" >&2; exit 1; }
export KCLI_BOOTSTRAP_SERVER=$address
for topic in users visits visits-by-country pages; do kcli topics create "$topic" > /dev/null; done
printf 'ada:GB\ngrace:US\n' | kcli produce users --key-separator : 2> /dev/null
printf 'ada:home\ngrace:home\nada:cart\n' | kcli produce visits --key-separator : 2> /dev/null
application=(kcli streams run visits.py --application-id visits --instance-id demo -X session.timeout.ms=6000)
printf '\n\033[1m$ %s &\033[0m\n' "${application[*]}"
"${application[@]}" &
job=$!
run 0 timeout 60 kcli consume pages --isolation-level read_committed --count 3 --template '%k %s\n'

say "Kill it, visit on, and run it again: it goes on from its last commit, with its stores from their changelogs"
printf '\n\033[1m$ kill -KILL %s\033[0m\n' "$job"
kill -KILL "$job"
wait "$job" || true
printf 'grace:cart\nada:home\n' | kcli produce visits --key-separator : 2> /dev/null
printf '\n\033[1m$ %s &\033[0m\n' "${application[*]}"
"${application[@]}" &
job=$!
run 0 timeout 60 kcli consume visits-by-country --isolation-level read_committed --count 5 --template '%k %s\n'
kill -TERM "$job"
wait "$job"
run 0 kcli streams store visits pages --value-serde long
kill -TERM "$streams"
wait "$streams"
unset KCLI_BOOTSTRAP_SERVER

say "The same records as Parquet, made by Spark, with no Kafka running; and a look into it"
run 0 kcli export-to-parquet "$rescue/data" --topic orders --out "$rescue/orders" --key-format string --value-format json
run 0 python show_parquet.py "$rescue/orders"

say "Is every record there, and once? The log is read again"
run 0 kcli export-to-parquet --check "$rescue/orders"

say "A topic streams into an Iceberg table: the clicks, most of them in the bucket; kill the job when it has written files"
coproc LAKE {
    exec kcli serve --data-dir "$rescue/tiered" --listen 127.0.0.1:0 "${storage[@]}" 2> "$rescue/lake.log"
}
lake=$LAKE_PID
read -r _ _ address _ <&"${LAKE[0]}" || { cat "$rescue/lake.log" >&2; exit 1; }
table=(kcli pipe "kafka://$address/clicks" "iceberg:$rescue/lake")
printf '\n\033[1m$ %s &\033[0m\n' "${table[*]}"
"${table[@]}" &
job=$!
until compgen -G "$rescue/.lake.kcli/*/*.parquet" > "$rescue/staged" || ! kill -0 "$job"; do sleep 0.02; done
printf '\n\033[1m$ kill -KILL %s\033[0m\n' "$job"
kill -KILL "$job" 2> /dev/null || true # it may have been quicker
wait "$job" || true

say "Run it again: each click is in the table once, and a third run finds nothing new"
run 0 "${table[@]}"
run 0 "${table[@]}"
run 0 python show_table.py "$rescue/lake"
kill -TERM "$lake"
wait "$lake"
exec {s3}>&-

say "Connect: a file becomes a topic becomes rows in SQLite; kill the worker half-way"
printf '\n\033[1m$ kcli serve --data-dir connect --listen 127.0.0.1:0 &\033[0m\n'
coproc CONNECT {
    exec kcli serve --data-dir "$rescue/connect" --listen 127.0.0.1:0 2> "$rescue/connect.log"
}
connect=$CONNECT_PID
read -r _ _ address _ <&"${CONNECT[0]}" || { cat "$rescue/connect.log" >&2; exit 1; }
cat > "$rescue/worker.properties" <<END
bootstrap.servers=$address
listeners=http://127.0.0.1:0
offset.storage.file.filename=$rescue/offsets
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
END
cat > "$rescue/file.properties" <<END
name=file
connector.class=FileStreamSource
file=$rescue/visitors
topic=visitors
transforms=row
transforms.row.type=org.apache.kafka.connect.transforms.HoistField\$Value
transforms.row.field=visitor
END
cat > "$rescue/rows.properties" <<END
name=rows
connector.class=io.confluent.connect.jdbc.JdbcSinkConnector
topics=visitors
connection.url=jdbc:sqlite:$rescue/visitors.db
auto.create=true
insert.mode=upsert
pk.mode=record_value
pk.fields=visitor
END
worker=(kcli connect run "$rescue/worker.properties" "$rescue/file.properties" "$rescue/rows.properties")

# rows COUNT: wait until the table has so many rows
rows() {
    python show_rows.py "$rescue/visitors.db" visitors "$1"
}

seq -f 'visitor %05.0f' 10000 > "$rescue/visitors"
printf '\n\033[1m$ %s &\033[0m\n' "${worker[*]}"
"${worker[@]}" 2> "$rescue/worker.log" &
job=$!
rows 1
printf '\n\033[1m$ kill -KILL %s\033[0m\n' "$job"
kill -KILL "$job"
wait "$job" || true
seq -f 'visitor %05.0f' 10001 20000 >> "$rescue/visitors"

say "Run it again: it goes on where its offsets are, and each visitor has one row"
printf '\n\033[1m$ %s &\033[0m\n' "${worker[*]}"
"${worker[@]}" 2> "$rescue/worker.log" &
job=$!
rows 20000
kill -TERM "$job"
wait "$job"
kill -TERM "$connect"
wait "$connect"
