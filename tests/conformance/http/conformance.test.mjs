// The published suite, pointed at a running server. Started by run.py.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_TEST_URL,
  longPollTimeoutMs: Number(process.env.CONFORMANCE_LONG_POLL_MS ?? 5000),
  subscriptions: process.env.CONFORMANCE_SUBSCRIPTIONS === "1",
})
