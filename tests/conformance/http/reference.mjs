// The protocol's reference server, in memory or in a folder: node reference.mjs PORT [long-poll ms] [folder]. Ends on SIGTERM.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({
  port: Number(process.argv[2]),
  longPollTimeout: Number(process.argv[3] ?? 1500),
  dataDir: process.argv[4],
  webhooks: true,
})
console.log(await server.start())
process.on("SIGTERM", () => process.exit(0))
