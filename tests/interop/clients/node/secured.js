// A user's jobs on a secured listener (../README.md) with kafkajs: secured.js
'use strict'

const { readFileSync } = require('fs')
const { createInterface } = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const PARTITIONS = 2
const WAIT_MS = 20000
const OAUTH = 'OAUTHBEARER'
const created = (admin, topic) => admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] })

function open({ bootstrap, ca, mechanism, user, secret, keys }, retries = 5) {
  const ssl = { ca: [readFileSync(ca)] }
  if (keys) ssl.key = ssl.cert = readFileSync(keys)
  const sasl = mechanism === OAUTH
    ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: secret }) }
    : mechanism && { mechanism: mechanism.toLowerCase(), username: user, password: secret }
  const retry = { initialRetryTime: 50, retries }
  return new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, ssl, sasl: sasl || undefined, retry })
}

async function read(kafka, { name, values }) {
  const consumer = kafka.consumer({ groupId: name, maxWaitTimeInMs: 100, readUncommitted: false })
  await consumer.connect()
  await consumer.subscribe({ topic: name, fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    setTimeout(resolve, WAIT_MS).unref()
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    const eachMessage = async ({ message }) => {
      found.push(message.value.toString())
      if (found.length > values.length) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  return found
}

async function refusal(promise) {
  try {
    await promise
    return 0
  } catch (error) {
    return (error.errors ? error.errors[0] : error).code
  }
}

async function turnedAway(job) {
  const admin = open({ ...job, secret: job.wrong }, 0).admin()
  try {
    await admin.connect()
    await admin.listTopics()
  } catch (error) {
    return error.message
  } finally {
    await admin.disconnect()
  }
  return ''
}

async function report(job) {
  const kafka = open(job)
  const admin = kafka.admin()
  await admin.connect()
  const refused = await refusal(created(admin, job.forbidden))
  await created(admin, job.name)
  const topics = await admin.listTopics()
  await admin.disconnect()

  let producer = kafka.producer({ idempotent: true })
  await producer.connect()
  for (const value of job.values) await producer.send({ topic: job.name, messages: [{ value }] })
  await producer.disconnect()
  producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: job.name })
  await producer.connect()
  for (const [value, end] of [[job.kept, 'commit'], [job.lost, 'abort']]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: job.name, messages: [{ value }] })
    await transaction[end]()
  }
  await producer.disconnect()
  const found = await read(kafka, job)
  return { refused, topics, read: found, turned_away: job.wrong ? await turnedAway(job) : '' }
}

async function main() {
  for await (const line of createInterface({ input: process.stdin }))
    console.log(JSON.stringify(await report(JSON.parse(line))))
}

main().then(() => process.exit(0), error => {
  console.error(error)
  process.exit(1)
})
