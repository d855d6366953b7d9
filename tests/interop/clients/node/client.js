// The steps of ../README.md with kafkajs: client.js BOOTSTRAP JOB.json
//
// Its consumer always joins a group. Here its own parts below that are used instead: cluster, broker and batch, which
// send the fetches and decode the answers.
'use strict'

const { readFileSync } = require('fs')
const zstd = require('@bokuweb/zstd-wasm')
const {
  Kafka, CompressionCodecs, CompressionTypes, ConfigResourceTypes, KafkaJSProtocolError, logLevel,
} = require('kafkajs')
const Batch = require('kafkajs/src/consumer/batch')
const Cluster = require('kafkajs/src/cluster')
const isolationLevel = require('kafkajs/src/protocol/isolationLevel')
const newSocket = require('kafkajs/src/network/socketFactory')
const lz4 = require('lz4-napi')

const WAIT_MS = 20000
const TOPIC_ALREADY_EXISTS = 36
const COMPRESSION = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => codec(lz4.compressFrameSync, lz4.decompressFrameSync)
CompressionCodecs[CompressionTypes.ZSTD] = () => codec(zstd.compress, zstd.decompress)

const codec = (compress, decompress) => ({
  compress: async encoder => Buffer.from(compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(decompress(buffer)),
})

const bootstrap = process.argv[2]
const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 3 },
})

async function produce(topic, messages, compression, idempotent) {
  const producer = kafka.producer({ idempotent })
  await producer.connect()
  try {
    const type = CompressionTypes[COMPRESSION[compression]]
    const sent = await producer.send({ topic, messages, acks: -1, compression: type })
    const next = Object.fromEntries(sent.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]))
    return messages.map(({ partition }) => next[partition]++)
  } finally {
    await producer.disconnect()
  }
}

async function assigned(topic, use) {
  const cluster = new Cluster({
    logger: kafka.logger(),
    socketFactory: newSocket(),
    brokers: [bootstrap],
    connectionTimeout: 1000,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: false,
  })
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [0]))
    return await use(await cluster.findBroker({ nodeId }), cluster)
  } finally {
    await cluster.disconnect()
  }
}

// positions: partition -> offset. Moves them behind what came.
async function fetch(broker, topic, positions, committed, maxWaitTime) {
  const partitions = Object.entries(positions).map(([partition, fetchOffset]) => ({
    partition: Number(partition), fetchOffset, maxBytes: 1 << 20,
  }))
  const level = committed ? isolationLevel.READ_COMMITTED : isolationLevel.READ_UNCOMMITTED
  const topics = [{ topic, partitions }]
  const { responses } = await broker.fetch({ isolationLevel: level, maxWaitTime, minBytes: 1, topics })
  const found = []
  for (const answer of responses[0].partitions) {
    const batch = new Batch(topic, positions[answer.partition], answer)
    found.push(...batch.messages.map(message => ({ ...message, partition: answer.partition })))
    if (batch.messages.length) positions[answer.partition] = String(Number(batch.lastOffset()) + 1)
  }
  return found
}

const read = (topic, partitions, count, committed) =>
  assigned(topic, async (broker, cluster) => {
    const places = [...Array(partitions).keys()].map(partition => ({ partition }))
    const asked = [{ topic, fromBeginning: true, partitions: places }]
    const [begins] = await cluster.fetchTopicsOffset(asked)
    const positions = Object.fromEntries(begins.partitions.map(({ partition, offset }) => [partition, offset]))
    const found = []
    const end = Date.now() + WAIT_MS
    while (found.length < count) {
      if (Date.now() > end) throw new Error(`read ${found.length} of ${count} records of ${topic}`)
      found.push(...(await fetch(broker, topic, positions, committed, 500)))
    }
    return found
  })

const tail = message =>
  assigned('tail', async broker => {
    const waiting = fetch(broker, 'tail', { 0: '0' }, false, WAIT_MS)
    const early = await Promise.race([waiting, new Promise(resolve => setTimeout(resolve, 300))])
    if (early !== undefined) throw new Error('nothing there yet')
    const begin = process.hrtime.bigint()
    await produce('tail', [message], 'none', false)
    if ((await waiting).length !== 1) throw new Error('nothing came')
    return Number(process.hrtime.bigint() - begin) / 1e6
  })

async function errorCode(promise) {
  try {
    await promise
    return 0
  } catch (error) {
    for (let inner = error; inner; inner = inner.partitions ? inner.partitions[0].error : inner.cause)
      if (inner instanceof KafkaJSProtocolError) return inner.code
    throw error
  }
}

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = data => (data === null ? null : data.toString('base64'))

function toMessage({ partition, timestamp_ms, key, value, headers }) {
  const grouped = {}
  for (const [name, data] of headers) (grouped[name] ||= []).push(bytes(data))
  return { partition, timestamp: String(timestamp_ms), key: bytes(key), value: bytes(value), headers: grouped }
}

function row({ partition, offset, timestamp, key, value, headers }) {
  const pairs = Object.entries(headers).flatMap(([name, data]) => [data].flat().map(each => [name, text(each)]))
  return [partition, Number(offset), Number(timestamp), text(key), text(value), pairs]
}

async function configs(admin, topic) {
  const { resources } = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }] })
  return Object.fromEntries(resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]))
}

async function takeSteps(job, admin) {
  const report = { client: `kafkajs ${require('kafkajs/package.json').version}`, acked: {}, read: {} }
  const topics = Object.entries(job.topics).map(([topic, { partitions, configs }]) => ({
    topic,
    numPartitions: partitions,
    replicationFactor: 1,
    configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
  }))
  await admin.createTopics({ topics })
  const again = await admin.createTopics({ topics: [{ topic: 'none', numPartitions: 1 }] })
  report.created_again = again ? 0 : TOPIC_ALREADY_EXISTS // it says false for that error, and throws for others

  const messages = job.records.map(toMessage)
  for (const { topic, codec, idempotent, partitions, committed } of job.runs) {
    const sent = messages.filter(({ partition }) => partition < partitions)
    report.acked[topic] = await produce(topic, sent, codec, idempotent)
    report.read[topic] = (await read(topic, partitions, sent.length, committed)).map(row)
  }
  const [{ low, high }] = (await admin.fetchTopicOffsets('none')).filter(({ partition }) => partition === 0)
  const byTime = async time =>
    Number((await admin.fetchTopicOffsetsByTimestamp('none', time)).find(({ partition }) => partition === 0).offset)
  const beyond = await byTime(job.beyond_ms)
  report.offsets = {
    earliest: Number(low),
    latest: Number(high),
    at: await byTime(job.at_ms),
    beyond: beyond === Number(high) ? null : beyond, // where there is none, it says the end
  }
  report.tail_ms = await tail(messages[0])
  const large = [{ partition: 0, key: null, value: Buffer.alloc(job.large_bytes) }]
  await produce('large', large, 'none', false)
  report.large = (await read('large', 1, 1, false))[0].value.length
  report.too_large = await errorCode(produce('none', large, 'none', false))

  const upTo = offset =>
    admin.deleteTopicRecords({ topic: 'none', partitions: [{ partition: 0, offset: String(offset) }] })
  await upTo(job.delete_before)
  report.first_left = Number((await read('none', 1, 1, false))[0].offset)
  report.deleted_beyond = await errorCode(upTo(2 ** 40))

  const doomed = await configs(admin, 'doomed')
  report.configs = Object.fromEntries(Object.keys(job.topics.doomed.configs).map(name => [name, doomed[name]]))
  const configEntries = [{ name: 'retention.ms', value: '4711' }]
  await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: 'doomed', configEntries }] })
  report.altered = (await configs(admin, 'doomed'))['retention.ms']
  const count = job.topics.doomed.partitions + 2
  await admin.createPartitions({ topicPartitions: [{ topic: 'doomed', count }] })
  const { topics: described } = await admin.fetchTopicMetadata({ topics: ['doomed'] })
  report.partitions = described[0].partitions.length
  await admin.deleteTopics({ topics: ['doomed'] })
  report.topics = (await admin.listTopics()).sort()
  report.deleted_again = await errorCode(admin.deleteTopics({ topics: ['doomed'] }))
  const { brokers, controller, clusterId } = await admin.describeCluster()
  report.cluster = { id: clusterId, controller, nodes: brokers.map(({ nodeId }) => nodeId) }
  return report
}

async function main() {
  await zstd.init()
  const admin = kafka.admin()
  await admin.connect()
  const report = await takeSteps(JSON.parse(readFileSync(process.argv[3], 'utf8')), admin)
  await admin.disconnect()
  console.log(JSON.stringify(report))
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
