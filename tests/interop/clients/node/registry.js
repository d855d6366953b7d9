// The steps of ../README.md for clients of a registry, with @kafkajs/confluent-schema-registry:
// registry.js BOOTSTRAP REGISTRY JOB.json
//
// Its own methods return compiled schemas; the texts are read with the HTTP client inside it.
'use strict'

const { readFileSync } = require('fs')
const { Kafka, logLevel } = require('kafkajs')
const { SchemaRegistry } = require('@kafkajs/confluent-schema-registry')
const { version } = require('@kafkajs/confluent-schema-registry/package.json')

const [, , bootstrap, host, path] = process.argv
const job = JSON.parse(readFileSync(path, 'utf8'))
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })

async function register(registry, { type, topic, ...todo }) {
  const subject = `${topic}-value`
  const add = async (name, schema, references) =>
    (await registry.register({ type, schema, references }, { subject: name })).id
  const first = await add(subject, todo.first)
  const evolved = await add(subject, todo.evolved)
  const again = await add(subject, todo.first)
  const refused = await add(subject, todo.incompatible).then(() => 0, error => error.status)
  const customer = await add(todo.reference, todo.customer)
  const references = [{ name: todo.reference, subject: todo.reference, version: 1 }]
  const sale = await add(`${topic}-sales-value`, todo.sale, references)

  const ids = [first, evolved, customer, sale]
  const [byId, byVersion] = [[], []]
  for (const id of ids) byId.push((await registry.api.Schema.find({ id })).data().schema)
  for (const number of [1, 2]) {
    const { schema } = (await registry.api.Subject.version({ subject, version: number })).data()
    byVersion.push([await registry.getRegistryId(subject, number), schema])
  }
  const read = (await registry.api.Subject.version({ subject: `${topic}-sales-value`, version: 1 })).data()
  if (await registry.getLatestSchemaId(subject) !== evolved) throw new Error('the latest schema is another one')
  return {
    ids,
    again,
    refused,
    by_id: byId,
    by_version: byVersion,
    latest: (await registry.api.Subject.latestVersion({ subject })).data().version,
    looked_up: await registry.getRegistryIdBySchema(subject, { type, schema: todo.first }),
    references: read.references.map(each => [each.name, each.subject, each.version]),
    sale: read.id,
  }
}

async function write(registry, reports) {
  const producer = kafka.producer()
  await producer.connect()
  for (const { type, topic } of job.formats) {
    const [first, evolved, , sale] = reports[type].ids
    const plan = [[topic, first, job.orders], [topic, evolved, job.noted], [`${topic}-sales`, sale, job.sales]]
    for (const [name, id, values] of plan) {
      const messages = []
      for (const value of values) messages.push({ value: await registry.encode(id, value) })
      await producer.send({ topic: name, messages })
    }
  }
  await producer.disconnect()
}

async function read(count) {
  const registry = new SchemaRegistry({ host })
  const readers = Object.fromEntries(job.formats.map(({ type, topic, evolved }) =>
    [topic, type === 'AVRO' ? { AVRO: { readerSchema: JSON.parse(evolved) } } : undefined]))
  const found = {}
  const consumer = kafka.consumer({ groupId: 'registry' })
  await consumer.connect()
  await consumer.subscribe({ topics: job.formats.flatMap(({ topic }) => [topic, `${topic}-sales`]), fromBeginning: true })
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ topic, message }) => {
      try {
        const values = found[topic] ||= []
        values.push(await registry.decode(message.value, readers[topic]))
        if (!--count) resolve()
      } catch (error) {
        reject(error)
      }
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  return found
}

async function main() {
  const registry = new SchemaRegistry({ host })
  const formats = {}
  for (const each of job.formats) formats[each.type] = await register(registry, each)
  await write(registry, formats)
  const found = await read(job.formats.length * (job.orders.length + job.noted.length + job.sales.length))
  for (const { type, topic } of job.formats)
    Object.assign(formats[type], { orders: found[topic], sales: found[`${topic}-sales`] })
  console.log(JSON.stringify({ client: `kafkajs ${version}`, formats }))
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
