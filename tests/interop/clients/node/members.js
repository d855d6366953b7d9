// Members of groups (../README.md) with kafkajs: members.js BOOTSTRAP
'use strict'

const { createInterface } = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({
  brokers: [process.argv[2]],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 5 },
})
const members = {}

const tell = (member, event) => console.log(JSON.stringify({ member, ...event }))

async function open({ member, topic, group, reset, session_ms, heartbeat_ms }) {
  const consumer = kafka.consumer({
    groupId: group, sessionTimeout: session_ms, heartbeatInterval: heartbeat_ms, maxWaitTimeInMs: 100,
  })
  const positions = {}
  members[member] = { consumer, topic, positions }
  const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events
  consumer.on(GROUP_JOIN, ({ payload }) => tell(member, { assigned: payload.memberAssignment[topic] || [] }))
  consumer.on(REBALANCING, () => tell(member, { assigned: [] }))
  consumer.on(CRASH, ({ payload }) => tell(member, { error: String(payload.error) }))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: reset === 'earliest' })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      positions[partition] = String(Number(message.offset) + 1)
      tell(member, { values: [message.value.toString()] })
    },
  })
}

async function commit({ member }) {
  const { consumer, topic, positions } = members[member]
  await consumer.commitOffsets(Object.entries(positions).map(([partition, offset]) => ({
    topic, partition: Number(partition), offset,
  })))
  tell(member, { committed: true })
}

async function close({ member }) {
  await members[member].consumer.disconnect()
  tell(member, { closed: true })
}

const commands = createInterface({ input: process.stdin })
commands.on('line', line => {
  const command = JSON.parse(line)
  const todo = { open, commit, close }[command.do]
  todo(command).catch(error => tell(command.member, { error: String(error) }))
})
commands.on('close', () => process.exit(0))
