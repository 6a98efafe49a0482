// The published client against a server of ours: node clients.mjs URL-of-a-stream. Prints what it saw as JSON.
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const url = process.argv[2]
const seen = {}
const handle = await DurableStream.create({ url, contentType: "application/json", warnOnHttp: false })
const producer = new IdempotentProducer(handle, "writer", { autoClaim: true, maxBatchBytes: 64 })
for (let number = 0; number < 50; number++) producer.append(JSON.stringify({ number }))
await producer.flush()
seen.head = await handle.head()
const response = await stream({ url, offset: "-1", live: false, warnOnHttp: false })
seen.items = await response.json()
// Another process with the same name claims the next epoch; the first one is fenced.
const successor = new IdempotentProducer(handle, "writer", { epoch: 1 })
successor.append(JSON.stringify({ number: 50 }))
await successor.flush()
for (const mode of ["sse", "long-poll"]) {
  const items = []
  const tail = await stream({ url, offset: response.offset, live: mode, warnOnHttp: false })
  const done = new Promise(resolve => tail.subscribeJson(batch => {
    items.push(...batch.items)
    if (items.length >= (mode === "sse" ? 2 : 3)) resolve()
  }))
  await handle.append(JSON.stringify({ number: mode === "sse" ? 51 : 52 }))
  await done
  seen[mode] = items.slice(0, mode === "sse" ? 2 : 3)
}
await handle.close()
seen.closed = (await handle.head()).streamClosed
console.log(JSON.stringify(seen))
process.exit(0)
