// The protocol's reference server, in memory: node reference.mjs PORT [long-poll ms]. Ends on SIGTERM.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({
  port: Number(process.argv[2]),
  longPollTimeout: Number(process.argv[3] ?? 1500),
  webhooks: true,
})
console.log(await server.start())
process.on("SIGTERM", () => process.exit(0))
